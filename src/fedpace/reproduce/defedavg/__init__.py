"""DeFedAvg: seconds to a target (Table 1), rounds to a target (Figures 6, 7, Theorems 1, 2)."""
