"""What `fedpace bench` measures: fedpace against bare torch loops that do the same local steps, in one comparison.

Speed is only known side by side. Every contender is a process of its own that waits until it is its turn; the
contenders take turns, and of several turns the median counts. What is printed and kept are ratios.
"""
