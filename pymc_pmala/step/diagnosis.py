"""Diagnosis of problems in a chain, reported as PyMC sampler warnings."""

import math
from collections.abc import Mapping

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType
from pymc.step_methods.state import DataClassState, WithSamplingState, dataclass_state

__all__ = ["Diagnosis", "DiagnosisState", "divergence"]

Point = dict[str, np.ndarray]

# Number of draws after tuning at which the acceptance rate is judged.
_ENOUGH = 200
# At half the usual acceptance rate, this many rejections in a row have probability below 1e-12.
_STUCK = 100
# The metric is checked once in this many of the first draws, and of the later ones. Draws are made
# ahead until the next check.
_EVERY, _EVERY_LATER = 10, 50
# Autocorrelation between successive draws above which a chain is slow: nine draws are worth one
# independent draw. Tuning aims at 0.15.
_SLOW = 0.8
# Jumps are measured once in this many of the first draws, and of the later ones.
_EVERY_JUMP, _EVERY_JUMP_LATER = 4, 20
# Share of draws with a direction informed only by the floor above which a warning is issued.
_FLOORED = 0.01
# Number of checks after which the usual size of the metric is known.
_ENOUGH_LOOKS = 20
# The metric does not fit where it is _SMALLER times smaller than usual and the log-density
# changes by more than _STEEP over one unit of the metric; or where it is _OTHER times smaller or
# larger than usual after _REJECTED rejections in a row.
_SMALLER, _STEEP = 10.0, 5.0
_OTHER, _REJECTED = 100.0, 20
# Share of such checks above which a warning is issued.
_ASTRAY = 0.01


@dataclass_state
class DiagnosisState(DataClassState):
    """Observations of a chain so far."""

    tuned: int
    draws: int
    accepted: float
    rejections: int
    looks: int
    floored: int
    log_metric: np.ndarray
    astray: int
    is_far: bool
    told: list[str]


class Diagnosis(WithSamplingState):
    """Monitor of one chain after tuning, which reports each problem once.

    PyMC logs the warnings that a step method returns as the statistic ``"warning"``. It does so
    in the user's process, and keeps them with ``pm.sample(keep_warning_stat=True)``.

    Parameters
    ----------
    target : float or None
        Target acceptance rate of the step size adaptation; None if the step size is not adapted.
    """

    _state_class = DiagnosisState

    def __init__(self, target: float | None):
        self.target = target
        self.restart()

    def restart(self) -> None:
        """Discard the observations of the previous chain."""
        self.tuned = 0
        self.draws, self.accepted, self.rejections = 0, 0.0, 0
        self.looks, self.floored, self.astray = 0, 0, 0
        self.log_metric = np.zeros(0)
        self.is_far = False
        self.told: list[str] = []

    @property
    def is_first_draw(self) -> bool:
        """Whether the next draw is the first after tuning."""
        return self.draws == 0 and self.tuned > 0

    def observe(
        self,
        acceptance: float,
        accepted: float,
        rejections: float,
        could_grow: bool,
        replaced: bool = False,
    ) -> SamplerWarning | None:
        """Record one draw after tuning, and return a warning if there is a reason for one.

        Parameters
        ----------
        acceptance : float
            Mean acceptance probability of its transitions.
        accepted, rejections : float
            The numbers of accepted proposals, and of rejected ones since the last of these.
        could_grow : bool
            Whether the step size is far below its largest useful value. If it is close to it, a
            high acceptance rate is no problem; this is common after a short tuning phase.
        replaced : bool
            Whether the metric at the draw has been replaced.
        """
        self.draws += 1
        self.accepted += acceptance
        self.rejections = int(rejections) + (0 if accepted else self.rejections)
        if self.rejections >= _STUCK:
            return self._stuck()
        if self.draws == _ENOUGH and self.target is not None:
            return self._judge(self.accepted / self.draws, self.target, could_grow)
        if self.is_far:
            return self._far()
        return self._replaced() if replaced else None

    def _far(self) -> SamplerWarning | None:
        return self._tell_once(
            "far",
            WarningType.CONVERGENCE,
            f"The chain was still far from the bulk of the posterior when tuning ended, after "
            f"{self.tuned} draws, so its step size may not suit the region to which it goes. Tune "
            "longer, or start nearer with `pm.sample(initvals=...)`.",
        )

    def _replaced(self) -> SamplerWarning | None:
        return self._tell_once(
            "replaced",
            WarningType.BAD_PARAMS,
            "The metric is not finite or not positive definite at some draws, although the "
            "log-density and its gradient are finite. It is replaced by (1 + |∇log π|²) I there. "
            "The draws are exact, but steps from these points are less efficient. The statistic "
            "`metric_replaced` marks the draws. Inspect the model there with "
            "`pymc_pmala.explain_metric(point=...)`, register the information of the distribution "
            "with `pymc_pmala.register_information`, or choose another metric.",
        )

    @property
    def wants_metric(self) -> bool:
        """Whether the metric should be checked after this draw."""
        return self.draws % (_EVERY if self.draws <= _ENOUGH else _EVERY_LATER) == 0

    @property
    def until_metric(self) -> int:
        """Number of draws until the metric is checked next."""
        every = _EVERY if self.draws < _ENOUGH else _EVERY_LATER
        return every - self.draws % every

    def observe_floor(self, floored: bool) -> SamplerWarning | None:
        """Record whether some direction is informed only by the metric's floor."""
        self.floored += floored
        early, late = min(self.draws, _ENOUGH), max(self.draws - _ENOUGH, 0)
        share = self.floored / (early / _EVERY + late / _EVERY_LATER)
        # A single case among few draws may be chance.
        if self.draws < _ENOUGH or self.floored <= 1 or share <= _FLOORED:
            return None
        return self._tell_once(
            "floor",
            WarningType.BAD_PARAMS,
            f"Neither data nor priors say anything about some direction in "
            f"{share:.0%} of the draws. Only the metric's floor limits the "
            "steps along it, and they are very large. Two parameters may enter the model only "
            "through their sum, or a prior may be flat or nearly flat. Give the parameters proper "
            "priors, or remove one; `pymc_pmala.explain_metric` shows what informs each of them.",
        )

    def observe_metric(
        self, diagonal: np.ndarray, force: np.ndarray, sizes: Mapping[str, int]
    ) -> SamplerWarning | None:
        r"""Record the metric at a draw, and warn if it does not fit the log-density.

        Where G is close to the information, :math:`f_i^2 / G_{ii}` is about 1. This is the
        squared change of the log-density over one unit of the metric. If the metric is much
        smaller than elsewhere in the run but the slope is not, steps are longer than the
        distance over which the density changes. Proposals from such a region are rejected, and
        so are those into it, so that it is hardly ever visited. A chain has also reached such a
        region if the metric is much smaller or larger than elsewhere and all proposals are
        rejected.

        Parameters
        ----------
        diagonal, force : ndarray
            :math:`G_{ii}` and the force f at the draw.
        sizes : mapping of str to int
            Number of coordinates of each variable, in order.
        """
        log_metric = np.log(diagonal)
        self.looks += 1
        if self.looks == 1:
            self.log_metric = log_metric
        away = log_metric - self.log_metric
        self.log_metric = self.log_metric + away / self.looks
        if self.looks < _ENOUGH_LOOKS:
            return None
        steep = force * force > _STEEP**2 * diagonal
        lost = (away < -math.log(_SMALLER)) & steep
        if self.rejections >= _REJECTED:
            lost |= np.abs(away) > math.log(_OTHER)
        self.astray += bool(lost.any())
        if not lost.any() or self.astray <= 2 or self.astray <= _ASTRAY * self.looks:
            return None
        owners = np.repeat(list(sizes), list(sizes.values()))
        names = ", ".join(dict.fromkeys(map(str, owners[lost])))
        worst = away[lost][np.argmax(np.abs(away[lost]))]
        found = f"{math.exp(abs(worst)):.2g} times {'smaller' if worst < 0 else 'larger'}"
        return self._tell_once(
            "astray",
            WarningType.CONVERGENCE,
            f"The metric of {names} is {found} than usual at some draws, and does not fit the "
            "log-density there. Proposals to and from such points are rejected, so this region "
            "may hardly be visited at all, and r-hat may not show it. Compare with NUTS. If the "
            "metric or the rule of a distribution is your own, it should not be much smaller than "
            "the squared slope of the log-density. Otherwise, try metric='softabs' or another "
            "parameterization.",
        )

    @property
    def wants_jump(self) -> bool:
        """Whether the jump from the last draw to this one should be measured."""
        return self.draws % (_EVERY_JUMP if self.draws <= _ENOUGH else _EVERY_JUMP_LATER) == 0

    @property
    def wants_mixing(self) -> bool:
        """Whether to call `judge_mixing` now: after 200, 400, 800 draws and so on."""
        times, rest = divmod(self.draws, _ENOUGH)
        return rest == 0 and times & (times - 1) == 0

    def judge_mixing(
        self, correlations: np.ndarray, sizes: Mapping[str, int], transitions: int
    ) -> SamplerWarning | None:
        """Warn of coordinates that hardly move from one draw to the next.

        Parameters
        ----------
        correlations : ndarray
            Autocorrelation of each coordinate from one draw to the next.
        sizes : mapping of str to int
            Number of coordinates of each variable, in order.
        transitions : int
            Number of transitions per draw.
        """
        owners = np.repeat(list(sizes), list(sizes.values()))
        slow = [str(name) for name in dict.fromkeys(owners[correlations > _SLOW])]
        # If the steps are too small, that has already been reported.
        if not slow or "small steps" in self.told:
            return None
        moves = "one transition" if transitions == 1 else f"{transitions} transitions"
        return self._tell_once(
            "slow",
            WarningType.CONVERGENCE,
            f"Draws hardly move {', '.join(slow)}: the autocorrelation between successive draws is "
            f"{correlations.max():.2f}, with {moves} per draw. Check r-hat "
            "and ESS before you use them. Tune longer if the chain has not converged. In a "
            "hierarchical model, do not switch interweaving off, and see with `explain_metric` "
            "whether it applies. Use proper priors if the posterior is improper. Otherwise, take "
            "more draws or use NUTS.",
        )

    def _stuck(self) -> SamplerWarning | None:
        return self._tell_once(
            "stuck",
            WarningType.CONVERGENCE,
            f"A chain is stuck: {self.rejections} proposals in a row were rejected at one point, "
            f"up to draw {self.draws}. The tails of the posterior are heavier there than those of "
            "the proposal. Set a higher target_accept, for example 0.8, reparameterize the model, "
            "or use NUTS.",
        )

    def _judge(self, rate: float, target: float, could_grow: bool) -> SamplerWarning | None:
        low, high = rate < 0.5 * target, could_grow and rate > 0.5 * (1.0 + target)
        if not (low or high):
            return None
        found = "below" if low else "above"
        message = f"The acceptance rate is {rate:.2f}, far {found} its target of {target:.2f}: "
        if self.tuned == 0:
            message += "the step size has not been tuned. Use tuning draws, or set step_size."
        elif low:
            message += (
                "the step size does not suit the region where the chain is now. Tune longer than "
                f"{self.tuned} draws, set a higher target_accept, or reparameterize the model."
            )
        else:
            message += (
                "the steps are smaller than they need to be, and the chain mixes more slowly. Tune "
                f"longer than {self.tuned} draws."
            )
        told = "large steps" if low else "small steps"
        return self._tell_once(told, WarningType.BAD_ACCEPTANCE, message)

    def _tell_once(self, what: str, kind: WarningType, message: str) -> SamplerWarning | None:
        if what in self.told:
            return None
        self.told = [*self.told, what]
        return SamplerWarning(kind, message, "warn", step=self.draws)


def divergence(tuning: bool, source: Point | None, destination: Point | None) -> SamplerWarning:
    """Return the warning about a proposal without a finite geometry.

    Its level is "debug", as in PyMC, which summarizes divergences after sampling.

    Parameters
    ----------
    tuning : bool
    source, destination : dict or None
        The point from which the proposal was made, and the proposed point.
    """
    return SamplerWarning(
        WarningType.TUNING_DIVERGENCE if tuning else WarningType.DIVERGENCE,
        "The log-density, its gradient or the metric is not finite at a proposal.",
        "debug",
        divergence_point_source=source,
        divergence_point_dest=destination,
    )
