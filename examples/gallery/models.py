"""Six well-known models with their data, written as in the examples of PyMC."""

import numpy as np
import pymc as pm


def numbers(text):
    return np.array(text.split(), dtype=float)


def eight_schools():
    effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        offset = pm.Normal("offset", dims="school")
        theta = pm.Deterministic("theta", mu + tau * offset, dims="school")
        pm.Normal("effect", theta, error, observed=effect, dims="school")
    return model


def baseball():
    hits = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])
    with pm.Model() as model:
        average = pm.Beta("average", 2, 5)
        alikeness = pm.Exponential("alikeness", 0.02)
        alpha, beta = average * alikeness, (1 - average) * alikeness
        ability = pm.Beta("ability", alpha, beta, shape=len(hits))
        pm.Binomial("hits", 45, ability, observed=hits)
    return model


def golf():
    feet = np.arange(2, 21)
    putts = numbers("""
        1443 694 455 353 272 256 240 217 200 237 202 192 174 167 201 195 191 147 152
    """)
    holed = numbers("""
        1346 577 337 208 149 136 111 69 67 75 52 46 54 28 27 31 33 20 24
    """)
    # The ball, 1.68 inches wide, must hit the hole, which is 4.25 inches wide.
    largest_angle = np.arcsin((4.25 - 1.68) / 2 / 12 / feet)
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1)
        chance = 2 * pm.math.invprobit(largest_angle / spread) - 1
        pm.Binomial("holed", putts, pm.Deterministic("chance", chance), observed=holed)
    return model


def outliers():
    x = numbers("""
        201 244 47 287 203 58 210 202 198 158 165 201 157 131 166 160 186 125 218 146
    """)
    y = numbers("""
        592 401 583 402 495 173 479 504 510 416 393 442 317 311 400 337 423 334 533 344
    """)
    error = numbers("""
        61 25 38 15 21 15 27 14 30 16 14 25 52 16 34 31 42 26 16 22
    """)
    # Standardised as in the example of PyMC.
    x, y, error = (x - x.mean()) / x.std(), (y - y.mean()) / y.std(), error / y.std()
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 1)
        slope = pm.Normal("slope", 0, 1)
        nu = pm.Exponential("nu", 0.1)
        pm.StudentT("y", nu + 1, mu=intercept + slope * x, sigma=error, observed=y)
    return model


def two_groups():
    drug = numbers("""
        101 100 102 104 102 97 105 105 98 101 100 123 105 103 100 95 102 106 109 102 82
        102 100 102 102 101 102 102 103 103 97 97 103 101 97 104 96 103 124 101 101 100
        101 101 104 100 101
    """)
    placebo = numbers("""
        99 101 100 101 102 100 97 101 104 101 102 102 100 105 88 101 100 104 100 100 100
        101 102 103 97 101 101 100 101 99 101 100 100 101 100 99 101 100 102 99 100 99
    """)
    both = np.concatenate([drug, placebo])
    with pm.Model(coords={"group": ["drug", "placebo"]}) as model:
        mean = pm.Normal("mean", both.mean(), 2 * both.std(), dims="group")
        sd = pm.Uniform("sd", 1, 10, dims="group")
        nu = pm.Exponential("nu", 1 / 29)
        pm.StudentT("drug", nu + 1, mu=mean[0], sigma=sd[0], observed=drug)
        pm.StudentT("placebo", nu + 1, mu=mean[1], sigma=sd[1], observed=placebo)
        pm.Deterministic("difference", mean[0] - mean[1])
    return model


def rugby():
    teams = ["Wales", "France", "Ireland", "Scotland", "Italy", "England"]
    home = np.array([0, 1, 2, 2, 3, 1, 0, 4, 5, 2, 3, 5, 4, 0, 1])
    away = np.array([4, 5, 3, 0, 5, 4, 1, 3, 2, 4, 1, 0, 5, 3, 2])
    home_points = np.array([23, 26, 28, 26, 0, 30, 27, 20, 13, 46, 17, 29, 11, 51, 20])
    away_points = np.array([15, 24, 6, 3, 20, 10, 6, 21, 10, 7, 19, 18, 52, 3, 22])
    with pm.Model(coords={"team": teams}) as model:
        advantage = pm.Normal("advantage", 0, 1)
        intercept = pm.Normal("intercept", 3, 1)
        attack = pm.ZeroSumNormal("attack", pm.HalfNormal("attack_sd", 1), dims="team")
        defence = pm.ZeroSumNormal("defence", pm.HalfNormal("defence_sd", 1), dims="team")
        at_home = pm.math.exp(intercept + advantage + attack[home] - defence[away])
        visiting = pm.math.exp(intercept + attack[away] - defence[home])
        pm.Poisson("home_points", at_home, observed=home_points)
        pm.Poisson("away_points", visiting, observed=away_points)
    return model


MODELS = {
    "eight_schools": eight_schools,
    "baseball": baseball,
    "golf": golf,
    "outliers": outliers,
    "two_groups": two_groups,
    "rugby": rugby,
}
