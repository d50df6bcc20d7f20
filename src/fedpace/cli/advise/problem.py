"""Constants of the theorems that no task tells."""

# option and field of Setting, symbol, meaning
PROBLEM = (
    ("smoothness", "L", "of the clients' objectives"),
    ("noise", "V", "sigma², gradient variance"),
    ("spread", "V", "sigma_g², gradient heterogeneity of the clients"),
    ("gap", "F", "initial loss minus the optimum"),
    ("gradient", "V", "G², largest squared gradient of a client"),
    ("radius", "H", "largest norm of the model"),
)
