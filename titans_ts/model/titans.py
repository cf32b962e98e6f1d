"""The Titans family: the memory beside causal attention, as a layer each in the memory's place.

Source: Titans: Learning to Memorize at Test Time (Behrouz et al., 2024), section 4, equations 21 to 31, figure 3.
"""
