"""Series as streams: the long-term memory reads on while rows arrive."""
