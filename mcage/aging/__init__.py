"""Device physics: threshold shift and delay of transistors, operating points, their constants."""
