"""The score by hand, by another way of computing it, and by what NAB publishes for a detector whose rows are known."""

from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np
import pytest

from benchmark.nab_data import load_nab
from benchmark.nab_score import (
    NEVER,
    PROFILES,
    Profile,
    Worth,
    best_score,
    join,
    normalise,
    score_at,
    sweep,
    worth_of_rows,
)

STANDARD = PROFILES["standard"]

# Rows past probation that CAD OSE ("contextOSE" of https://github.com/numenta/NAB at ea702d7, `results/`) scores at
# least .7664, and those from .705 to that.
HIGH = {
    "artificialNoAnomaly/art_daily_perfect_square_wave.csv": [684],
    "artificialNoAnomaly/art_daily_small_noise.csv": [2493],
    "artificialWithAnomaly/art_daily_flatmiddle.csv": [2801, 3156],
    "artificialWithAnomaly/art_daily_jumpsdown.csv": [2520, 2988],
    "artificialWithAnomaly/art_daily_jumpsup.csv": [2988],
    "artificialWithAnomaly/art_daily_nojump.csv": [792, 1343],
    "artificialWithAnomaly/art_increase_spike_density.csv": [2005],
    "artificialWithAnomaly/art_load_balancer_spikes.csv": [750, 1446, 2290, 2883],
    "realAWSCloudwatch/ec2_cpu_utilization_24ae8d.csv": [3547, 3777],
    "realAWSCloudwatch/ec2_cpu_utilization_53ea38.csv": [735, 1018, 1148, 1307, 1520, 2750],
    "realAWSCloudwatch/ec2_cpu_utilization_5f5533.csv": [1270, 2970],
    "realAWSCloudwatch/ec2_cpu_utilization_77c1ca.csv": [2121, 2480],
    "realAWSCloudwatch/ec2_cpu_utilization_825cc2.csv": [861, 1640, 1768, 1897],
    "realAWSCloudwatch/ec2_cpu_utilization_ac20cd.csv": [3575],
    "realAWSCloudwatch/ec2_cpu_utilization_c6585a.csv": [731, 3610],
    "realAWSCloudwatch/ec2_cpu_utilization_fe7f93.csv": [760, 1255, 2130, 3921],
    "realAWSCloudwatch/ec2_disk_write_bytes_1ef3de.csv": [2635, 3250, 3728, 4502],
    "realAWSCloudwatch/ec2_disk_write_bytes_c0d644.csv": [1861, 2094, 2294, 2633],
    "realAWSCloudwatch/ec2_network_in_257a54.csv": [1640],
    "realAWSCloudwatch/ec2_network_in_5abac7.csv": [1778, 2592, 3209, 4112],
    "realAWSCloudwatch/elb_request_count_8c0756.csv": [785, 3682],
    "realAWSCloudwatch/grok_asg_anomaly.csv": [830, 1513, 2132, 3753],
    "realAWSCloudwatch/iio_us-east-1_i-a2eb1cd9_NetworkIn.csv": [202],
    "realAWSCloudwatch/rds_cpu_utilization_cc0c53.csv": [3080, 3579],
    "realAWSCloudwatch/rds_cpu_utilization_e47b3b.csv": [946, 2585, 2845],
    "realAdExchange/exchange-2_cpc_results.csv": [299, 1037],
    "realAdExchange/exchange-2_cpm_results.csv": [974, 1275],
    "realAdExchange/exchange-3_cpc_results.csv": [296, 439, 976, 1121],
    "realAdExchange/exchange-3_cpm_results.csv": [1121],
    "realAdExchange/exchange-4_cpc_results.csv": [367, 1276, 1565],
    "realAdExchange/exchange-4_cpm_results.csv": [367, 1276, 1401],
    "realKnownCause/ambient_temperature_system_failure.csv": [781, 1820, 3697],
    "realKnownCause/cpu_utilization_asg_misconfiguration.csv": [816, 995, 1211, 1583, 2664, 2831, 9158, 17615],
    "realKnownCause/ec2_request_latency_system_failure.csv": [2081, 3394, 4024],
    "realKnownCause/machine_temperature_system_failure.csv": [2374, 3904],
    "realKnownCause/nyc_taxi.csv": [5954, 8833],
    "realKnownCause/rogue_agent_key_hold.csv": [432, 1325, 1569],
    "realKnownCause/rogue_agent_key_updown.csv": [1148, 5146],
    "realTraffic/TravelTime_387.csv": [428, 989, 1539, 2039, 2132],
    "realTraffic/TravelTime_451.csv": [546],
    "realTraffic/occupancy_6005.csv": [1764, 2274],
    "realTraffic/occupancy_t4013.csv": [2147, 2397],
    "realTraffic/speed_6005.csv": [915, 2386],
    "realTraffic/speed_7578.csv": [276, 317, 624, 673, 748, 916, 958],
    "realTraffic/speed_t4013.csv": [2144, 2351],
    "realTweets/Twitter_volume_AAPL.csv": [1433, 4958, 9171],
    "realTweets/Twitter_volume_AMZN.csv": [1993, 3159, 3735],
    "realTweets/Twitter_volume_CRM.csv": [3137, 6065, 8032],
    "realTweets/Twitter_volume_CVS.csv": [1640, 1995, 7980, 13526],
    "realTweets/Twitter_volume_FB.csv": [5009, 10321],
    "realTweets/Twitter_volume_GOOG.csv": [1641, 4302, 4545, 9763],
    "realTweets/Twitter_volume_IBM.csv": [1059, 4809, 5125, 5434, 7209, 15244, 15462, 15734],
    "realTweets/Twitter_volume_KO.csv": [11832, 13454],
    "realTweets/Twitter_volume_PFE.csv": [1010, 1594, 4299, 11544],
    "realTweets/Twitter_volume_UPS.csv": [1185, 1600, 1939, 2247, 3304, 7447],
}
LOW = {
    "artificialNoAnomaly/art_daily_small_noise.csv": [684, 3096],
    "artificialWithAnomaly/art_daily_flatmiddle.csv": [684],
    "artificialWithAnomaly/art_daily_jumpsdown.csv": [3384],
    "artificialWithAnomaly/art_daily_nojump.csv": [684],
    "realAWSCloudwatch/ec2_cpu_utilization_53ea38.csv": [2672],
    "realAWSCloudwatch/ec2_cpu_utilization_77c1ca.csv": [631, 959, 1364, 1880, 2264],
    "realAWSCloudwatch/ec2_cpu_utilization_fe7f93.csv": [3337, 3495, 3765],
    "realAWSCloudwatch/ec2_disk_write_bytes_1ef3de.csv": [2611, 2618, 3249],
    "realAWSCloudwatch/ec2_disk_write_bytes_c0d644.csv": [2632],
    "realAWSCloudwatch/rds_cpu_utilization_e47b3b.csv": [3593],
    "realAdExchange/exchange-2_cpc_results.csv": [942, 1013],
    "realAdExchange/exchange-2_cpm_results.csv": [1088, 1446],
    "realAdExchange/exchange-4_cpc_results.csv": [1401],
    "realKnownCause/ambient_temperature_system_failure.csv": [2116, 5883],
    "realKnownCause/cpu_utilization_asg_misconfiguration.csv": [
        8010,
        8311,
        8952,
        10135,
        10137,
        17004,
        17183,
        17444,
        17794,
    ],
    "realKnownCause/ec2_request_latency_system_failure.csv": [4023],
    "realKnownCause/machine_temperature_system_failure.csv": [1989, 2373, 19465],
    "realKnownCause/nyc_taxi.csv": [3262],
    "realTraffic/TravelTime_387.csv": [1685],
    "realTraffic/occupancy_6005.csv": [978, 1535, 2262],
    "realTraffic/occupancy_t4013.csv": [2255],
    "realTraffic/speed_6005.csv": [2318],
    "realTraffic/speed_7578.csv": [363, 1047],
    "realTraffic/speed_t4013.csv": [1620, 2087],
    "realTweets/Twitter_volume_AAPL.csv": [13550],
    "realTweets/Twitter_volume_GOOG.csv": [1640],
    "realTweets/Twitter_volume_PFE.csv": [5412],
    "realTweets/Twitter_volume_UPS.csv": [10192],
}
PUBLISHED = {
    "standard": 69.89956896844828,
    "reward_low_FP_rate": 66.97713919047413,
    "reward_low_FN_rate": 73.18167250416667,
}


def sigmoid(position: float) -> float:
    return 2 / (1 + exp(5 * position)) - 1


def test_a_detection_is_worth_less_the_later_in_its_window_and_costs_more_the_further_behind_it() -> None:
    found = worth_of_rows(30, [(10, 13)])
    assert found.worth[:10].tolist() == [-1] * 10
    inside = [1, sigmoid(-0.75) / sigmoid(-1), sigmoid(-0.5) / sigmoid(-1), sigmoid(-0.25) / sigmoid(-1)]
    assert found.worth[10:14] == pytest.approx(inside)
    assert found.worth[12] == pytest.approx(0.84828 / 0.98661, abs=1e-5)  # NAB's own example of half a window
    assert found.worth[14:23] == pytest.approx([sigmoid(row / 3) for row in range(1, 10)])
    assert found.worth[23:].tolist() == [-1] * 7  # over three widths behind
    assert found.window.tolist() == [-1] * 10 + [0] * 4 + [-1] * 16


def test_between_windows_a_detection_is_measured_from_the_one_before() -> None:
    found = worth_of_rows(20, [(2, 6), (9, 10)])
    assert found.worth[7:9] == pytest.approx([sigmoid(1 / 4), sigmoid(2 / 4)])
    assert found.worth[9:13] == pytest.approx([1, sigmoid(-0.5) / sigmoid(-1), sigmoid(1), sigmoid(2)])
    assert found.window[[8, 9, 10, 11]].tolist() == [-1, 1, 1, -1]


@pytest.mark.parametrize(("rows", "first"), [(10, 1), (100, 15), (4032, 604), (5000, 750), (22695, 750)])
def test_the_first_rows_do_not_count(rows: int, first: int) -> None:
    assert np.flatnonzero(worth_of_rows(rows, []).counts)[0] == first


def two_files() -> Worth:
    """Windows at rows 8 to 11 of 20 and 4 to 5 of 10; 3 rows and 1 row of probation."""
    return join([worth_of_rows(20, [(8, 11)]), worth_of_rows(10, [(4, 5)])])


def test_the_first_detection_of_a_window_and_every_false_one_count() -> None:
    scores = np.zeros(30)
    scores[[1, 5, 9, 10, 14]] = 1  # in probation, before the first window, twice within, behind; the second is missed
    found = score_at(two_files(), scores, 1.0, STANDARD)
    total = sigmoid(-0.75) / sigmoid(-1) - 0.11 * (1 - sigmoid(1)) - 1
    assert found.score == pytest.approx(100 * (total + 2) / 4)
    assert (found.found, found.false) == (1, 2)


def test_profiles_weigh_false_detections_and_missed_windows() -> None:
    scores = np.zeros(30)
    scores[[5, 8]] = 1
    found = {name: score_at(two_files(), scores, 1.0, profile).score for name, profile in PROFILES.items()}
    expected = {"standard": 100 * 1.89 / 4, "reward_low_FP_rate": 100 * 1.78 / 4, "reward_low_FN_rate": 100 * 2.89 / 6}
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("profile", PROFILES.values())
def test_no_detection_has_0_and_the_first_row_of_each_window_100(profile: Profile) -> None:
    rows, scores = two_files(), np.zeros(30)
    assert score_at(rows, scores, NEVER, profile).score == 0
    scores[[8, 24]] = 0.5
    found = best_score(rows, scores, profile)
    assert (found.score, found.threshold, found.found, found.false) == (pytest.approx(100), 0.5, 2, 0)


@pytest.mark.parametrize("profile", PROFILES.values())
def test_one_pass_has_the_score_of_every_threshold(profile: Profile) -> None:
    rng = np.random.default_rng(0)
    rows = join(
        [worth_of_rows(100, [(10, 13), (20, 40), (80, 99)]), worth_of_rows(60, []), worth_of_rows(50, [(30, 33)])]
    )
    scores = rng.integers(0, 40, 210) / 39  # many are equal
    thresholds, sums = sweep(rows, scores, profile)
    assert thresholds.tolist() == [NEVER, *sorted(set(scores[rows.counts]), reverse=True)]
    expected = [score_at(rows, scores, threshold, profile).score for threshold in thresholds]
    assert [normalise(rows, total, profile) for total in sums] == pytest.approx(expected, abs=1e-9)
    assert best_score(rows, scores, profile).score == max(expected)


def test_of_thresholds_that_are_best_the_highest_is_taken() -> None:
    scores = np.zeros(30)
    scores[[8, 9, 24]] = 0.9, 0.8, 0.9  # the second detection of the window changes nothing
    assert best_score(two_files(), scores, STANDARD).threshold == 0.9


def test_where_every_threshold_costs_more_than_it_finds_nothing_is_detected() -> None:
    rows = worth_of_rows(400, [(200, 209)])
    found = best_score(rows, np.where(rows.window < 0, 1.0, 0.0), STANDARD)
    assert found == (0, NEVER, 0, 0)


@pytest.mark.parametrize("windows", [[(3, 3)], [(5, 30)], [(5, 9), (9, 12)], [(5, 9), (1, 3)], [(-2, 4)]])
def test_windows_that_cannot_be_are_refused(windows: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match=r"`windows` must be pairs .* within the file's 30 rows"):
        worth_of_rows(30, windows)


def test_scores_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`scores` must have shape \(30,\), .* got \(29,\)"):
        best_score(two_files(), np.zeros(29), STANDARD)
    with pytest.raises(ValueError, match=r"`scores` must be in \[0, 1\], got 2 of 30"):
        best_score(two_files(), np.array([np.nan, 1.01, *np.zeros(28)]), STANDARD)


@pytest.mark.data
def test_a_published_detector_has_its_published_scores(data_folder: Path) -> None:
    files = load_nab(data_folder)
    rows = join([worth_of_rows(len(file.values), file.windows) for file in files])
    scores = [np.zeros(len(file.values)) for file in files]
    for file, found in zip(files, scores, strict=True):
        found[LOW.get(file.name, [])], found[HIGH.get(file.name, [])] = 0.5, 1
    found = {name: best_score(rows, np.concatenate(scores), profile) for name, profile in PROFILES.items()}
    assert {name: score.score for name, score in found.items()} == pytest.approx(PUBLISHED, abs=1e-9)
    assert [score.threshold for score in found.values()] == [1, 1, 0.5]
