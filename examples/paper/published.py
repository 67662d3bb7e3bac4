"""Published results of Xifara et al. (2014), X, and of Girolami & Calderhead (2011), GC."""

__all__ = [
    "FITZHUGH_NAGUMO_GC",
    "FITZHUGH_NAGUMO_X",
    "LOGISTIC_GC",
    "LOGISTIC_X",
    "LOGISTIC_X_SECONDS",
    "VOLATILITY_GC",
]

# Effective sizes of 5000 draws: minimum, median and maximum over the coefficients.
LOGISTIC_X = {
    "australian": {"PMALA": (685, 847, 986), "MMALA": (696, 848, 943)},
    "german": {"PMALA": (605, 777, 917), "MMALA": (605, 774, 921)},
    "heart": {"PMALA": (659, 795, 923), "MMALA": (657, 773, 920)},
    "pima": {"PMALA": (1235, 1415, 1572), "MMALA": (1264, 1425, 1576)},
    "ripley": {"PMALA": (477, 591, 679), "MMALA": (460, 590, 686)},
}
LOGISTIC_X_SECONDS = {
    "australian": {"PMALA": 12.58, "MMALA": 14.08},
    "german": {"PMALA": 43.8, "MMALA": 45.72},
    "heart": {"PMALA": 6.57, "MMALA": 8.07},
    "pima": {"PMALA": 4.67, "MMALA": 5.59},
    "ripley": {"PMALA": 3.32, "MMALA": 3.94},
}
LOGISTIC_GC = {
    "australian": {"MMALA": (702, 867, 1037), "SimplifiedMMALA": (487, 625, 746)},
    "german": {"MMALA": (604, 766, 902), "SimplifiedMMALA": (435, 615, 747)},
    "heart": {"MMALA": (656, 789, 903), "SimplifiedMMALA": (371, 481, 617)},
    "pima": {"MMALA": (1135, 1286, 1412), "SimplifiedMMALA": (1046, 1160, 1300)},
    "ripley": {"MMALA": (447, 579, 685), "SimplifiedMMALA": (291, 403, 473)},
}

# Effective sizes of 5000 draws of a, b and c.
FITZHUGH_NAGUMO_X = {"PMALA": (1639.6, 669.3, 1406.4), "MMALA": (1274.4, 632.8, 1120.5)}
FITZHUGH_NAGUMO_GC = {
    "MALA": (125, 21, 46),
    "MMALA": (1057, 925, 956),
    "SimplifiedMMALA": (1007, 479, 762),
}

# Effective sizes of 20000 draws of β, σ and φ, by MMALA.
VOLATILITY_GC = (17.2, 17.4, 44.5)
