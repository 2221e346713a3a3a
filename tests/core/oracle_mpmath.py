"""Slow, obvious, many-digit answers that the fast library is compared with.

Everything here starts from densities and is written without looking at the library.
A cell that *gains* `shift` is Gamma(a + shift) against Gamma(a); a cell that *loses*
is the other way round. All arguments are the exact binary values of the floats given.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from mpmath import mp, mpf

DIGITS = 80
Changes = Iterable[Sequence[float]]


def with_digits(function: Callable) -> Callable:
    """Run `function` at `DIGITS` digits whatever the caller's setting is."""

    def at_full_precision(*args, **kwargs):
        with mp.workdps(kwargs.pop("digits", DIGITS)):
            return +mp.mpmathify(function(*args, **kwargs))

    at_full_precision.__name__ = function.__name__
    at_full_precision.__doc__ = function.__doc__
    return at_full_precision


@with_digits
def bregman_lgamma(a: float, t: float) -> mpf:
    """lgamma(a + t) - lgamma(a) - t * digamma(a)."""
    a, t = mpf(a), mpf(t)
    return mp.loggamma(a + t) - mp.loggamma(a) - t * mp.digamma(a)


# Rényi divergence -----------------------------------------------------------------------


@with_digits
def gamma_divergence(shape: float, other: float, order: float) -> mpf:
    """Rényi divergence of Gamma(shape) from Gamma(other), in closed form."""
    p, q, lam = mpf(shape), mpf(other), mpf(order)
    mixed = lam * p - (lam - 1) * q
    if mixed <= 0:
        return mp.inf
    log_moment = mp.loggamma(mixed) + (lam - 1) * mp.loggamma(q) - lam * mp.loggamma(p)
    return log_moment / (lam - 1)


@with_digits
def change_divergence(change: Sequence[float], order: float, *, weight: float, alpha: float) -> mpf:
    """Rényi divergence of the dominating pair of one change vector."""
    total = mpf(0)
    for m in change:
        shifted = mpf(alpha) + abs(mpf(m)) * mpf(weight)
        before, after = (alpha, shifted) if m > 0 else (shifted, alpha)
        total += gamma_divergence(after, before, order)
    return total


@with_digits
def relation_divergence(changes: Changes, order: float, *, weight: float, alpha: float) -> mpf:
    """Return the worst of the change vectors."""
    return max(change_divergence(c, order, weight=weight, alpha=alpha) for c in changes)


@with_digits
def dirichlet_divergence(p: Sequence[float], q: Sequence[float], order: float) -> mpf:
    """Rényi divergence of Dirichlet(p) from Dirichlet(q), one row, in closed form."""
    lam = mpf(order)
    mixed = [lam * mpf(a) - (lam - 1) * mpf(b) for a, b in zip(p, q, strict=True)]
    if min(mixed) <= 0:
        return mp.inf

    def log_beta(cells: Sequence[float]) -> mpf:
        cells = [mpf(c) for c in cells]
        return mp.fsum(mp.loggamma(c) for c in cells) - mp.loggamma(mp.fsum(cells))

    return (log_beta(mixed) + (lam - 1) * log_beta(q) - lam * log_beta(p)) / (lam - 1)


def _log_gamma_grid(shape: mpf) -> list[mpf]:
    """Cuts of the line that hold log(X), X ~ Gamma(shape), but for less than 1e-40."""
    left = [-k / min(shape, 1) for k in (100, 60, 30, 10, 5, 2, 1, 0.5)]
    right = [mp.log(1 + k / min(shape, 1)) for k in (1, 3, 10, 30, 100)]
    return [mp.log(shape) + step for step in (*left, 0, *right)]


@with_digits
def gamma_divergence_by_integration(shape: float, other: float, order: float) -> mpf:
    """Rényi divergence of two gammas from their densities, over y = log(x)."""
    p, q, lam = mpf(shape), mpf(other), mpf(order)

    def log_density(y: mpf, a: mpf) -> mpf:
        return a * y - mp.exp(y) - mp.loggamma(a)

    def integrand(y: mpf) -> mpf:
        return mp.exp(lam * log_density(y, p) - (lam - 1) * log_density(y, q))

    grid = _log_gamma_grid(lam * p - (lam - 1) * q)
    return mp.log(mp.quad(integrand, grid)) / (lam - 1)


@with_digits
def pair_divergence_by_integration(order: float, *, shift: float, alpha: float) -> mpf:
    """Rényi divergence of Beta(a + s, a) from Beta(a, a + s) by densities, over logit(b)."""
    a, s, lam = mpf(alpha), mpf(shift), mpf(order)

    def integrand(y: mpf) -> mpf:
        p, q = logit_log_density(y, a + s, a), logit_log_density(y, a, a + s)
        return mp.exp(lam * p - (lam - 1) * q)

    up, down = a + lam * s, a - (lam - 1) * s
    peak = mp.log(up / down)
    steps = (0.5, 2, 6, 20, 60, 100)
    grid = [peak - k / min(up, 1) for k in reversed(steps)] + [peak]
    grid += [peak + k / min(down, 1) for k in steps]
    return mp.log(mp.quad(integrand, grid)) / (lam - 1)


@with_digits
def pair_kl(*, shift: float, alpha: float) -> mpf:
    """Limit of the pair's divergence as the order falls to 1."""
    a, s = mpf(alpha), mpf(shift)
    return s * (mp.digamma(a + s) - mp.digamma(a))


@with_digits
def dps_divergence(changes: Changes, order: float, *, weight: float, alpha: float) -> mpf:
    """DPS Corollary 3, with the two sensitivities read off the change vectors."""
    lam, r, a = mpf(order), mpf(weight), mpf(alpha)
    squared = max(sum(mpf(m) ** 2 for m in c) for c in changes)
    largest = max(max(abs(mpf(m)) for m in c) for c in changes)
    argument = a - (lam - 1) * r * largest
    if argument <= 0:
        return mp.inf
    return lam * r**2 * squared * mp.polygamma(1, argument) / 2


# Incomplete functions: series of positive terms only ---------------------------------------


def _sum_of_products(ratio: Callable[[int], mpf]) -> mpf:
    """1 + ratio(0) + ratio(0) * ratio(1) + ..., for positive ratios falling below one."""
    total, term, n = mpf(1), mpf(1), 0
    while True:
        factor = ratio(n)
        term *= factor
        total += term
        if factor < 1 and term < total * mp.eps * (1 - factor):
            return total
        n += 1


@with_digits
def beta_cdf(x: mpf, a: mpf, b: mpf) -> mpf:
    """Regularised incomplete beta function."""
    x, a, b = mpf(x), mpf(a), mpf(b)
    log_front = (
        a * mp.log(x) + b * mp.log1p(-x) + mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b)
    )
    return mp.exp(log_front) * _sum_of_products(lambda n: x * (a + b + n) / (a + 1 + n))


@with_digits
def gamma_cdf(x: mpf, a: mpf) -> mpf:
    """Regularised lower incomplete gamma function."""
    x, a = mpf(x), mpf(a)
    log_front = a * mp.log(x) - x - mp.loggamma(a + 1)
    return mp.exp(log_front) * _sum_of_products(lambda n: x / (a + 1 + n))


# Hockey-stick divergence ---------------------------------------------------------------


def logit_log_density(y: mpf, a: mpf, b: mpf) -> mpf:
    """Log-density of logit(B) for B ~ Beta(a, b)."""
    log_p, log_q = -mp.log1p(mp.exp(-y)), -mp.log1p(mp.exp(y))
    return a * log_p + b * log_q + mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)


@with_digits
def pair_delta(epsilon: float, *, shift: float, alpha: float) -> mpf:
    """Hockey-stick divergence of Beta(a + s, a) from Beta(a, a + s), any real epsilon."""
    eps, s, a = mpf(epsilon), mpf(shift), mpf(alpha)
    if eps < 0:  # the pair is its own mirror image
        return 1 - mp.exp(eps) + mp.exp(eps) * pair_delta(-eps, shift=s, alpha=a)
    x = 1 / (1 + mp.exp(eps / s))
    return beta_cdf(x, a, a + s) - mp.exp(eps) * beta_cdf(x, a + s, a)


@with_digits
def pair_delta_by_integration(epsilon: float, *, shift: float, alpha: float) -> mpf:
    """Return the same from the densities: the integral of the positive part of p - e^eps q."""
    eps, s, a = mpf(epsilon), mpf(shift), mpf(alpha)
    start = eps / s

    height = logit_log_density(start, a + s, a)  # mp.quad stops at an absolute error

    def integrand(y: mpf) -> mpf:
        return -mp.expm1(s * (start - y)) * mp.exp(logit_log_density(y, a + s, a) - height)

    cuts = [start + k / mp.sqrt(a) for k in (0.3, 1, 3, 9)]
    cuts += [start + k / a for k in (0.3, 1, 3, 10, 30, 100)]
    return mp.exp(height) * mp.quad(integrand, [start, *sorted(cuts)])


def _gamma_threshold(eps: mpf, s: mpf, a: mpf, sign: int) -> mpf:
    return mp.exp((mp.loggamma(a + s) - mp.loggamma(a) + sign * eps) / s)


@with_digits
def up_delta(epsilon: float, *, shift: float, alpha: float) -> mpf:
    """Hockey-stick divergence of Gamma(a + s) from Gamma(a)."""
    eps, s, a = mpf(epsilon), mpf(shift), mpf(alpha)
    t = _gamma_threshold(eps, s, a, +1)
    exponent = max(0, t - a - s - (a + s) * mp.log(t / (a + s))) if t > a + s else 0  # Chernoff
    if exponent > 900:
        return mpf(0)  # less than 1e-390
    with mp.extradps(int(exponent / 2.3) + 20):  # digits that 1 - cdf cancels
        more, less = (1 - gamma_cdf(t, shape, digits=mp.dps) for shape in (a + s, a))
        return more - mp.exp(eps) * less


@with_digits
def down_delta(epsilon: float, *, shift: float, alpha: float) -> mpf:
    """Hockey-stick divergence of Gamma(a) from Gamma(a + s)."""
    eps, s, a = mpf(epsilon), mpf(shift), mpf(alpha)
    t = _gamma_threshold(eps, s, a, -1)
    return gamma_cdf(t, a) - mp.exp(eps) * gamma_cdf(t, a + s)


@with_digits
def gamma_delta_by_integration(epsilon: float, *, shape: float, other: float) -> mpf:
    """Hockey-stick divergence of Gamma(shape) from Gamma(other) by densities, over log(x)."""
    eps, p, q = mpf(epsilon), mpf(shape), mpf(other)
    crossing = (eps + mp.loggamma(p) - mp.loggamma(q)) / (p - q)

    height = p * crossing - mp.exp(crossing) - mp.loggamma(p)

    def integrand(y: mpf) -> mpf:
        density = mp.exp(p * y - mp.exp(y) - mp.loggamma(p) - height)
        return -mp.expm1((p - q) * (crossing - y)) * density

    if p > q:
        start = mp.exp(crossing)
        ends = [mp.log(start + k * (1 + mp.sqrt(start))) for k in (0, 0.1, 1, 3, 10, 30, 100)]
    else:
        ends = [crossing - k / min(p, 1) for k in (100, 30, 10, 3, 1, 0.3, 0.1, 0)]
    return mp.exp(height) * mp.quad(integrand, ends)


@with_digits
def two_pairs_delta(epsilon: float, *, shift: float, alpha: float) -> mpf:
    """Hockey-stick divergence of two independent pairs: one integrated, one in closed form."""
    eps, s, a = mpf(epsilon), mpf(shift), mpf(alpha)

    def integrand(y: mpf) -> mpf:
        weight = mp.exp(logit_log_density(y, a + s, a))
        return weight * pair_delta(eps - s * y, shift=s, alpha=a, digits=mp.dps)

    width = 4 / mp.sqrt(a)
    cuts = [eps / s, *(k * width for k in (-4, -2, -1, 0, 1, 2, 4))]
    far = 60 / a + 20
    return mp.quad(integrand, [-far, *sorted(cuts), max(eps / s, 4 * width) + far])


# Conversions -----------------------------------------------------------------------------


@with_digits
def converted_epsilon(rdp: float, order: float, delta: float) -> mpf:
    """Epsilon that follows from one point of an RDP curve (may be negative)."""
    lam = mpf(order)
    return mpf(rdp) + mp.log(lam - 1) - (mp.log(delta) + lam * mp.log(lam)) / (lam - 1)


@with_digits
def converted_delta(rdp: float, order: float, epsilon: float) -> mpf:
    """Return the delta that follows from one point of an RDP curve (may exceed 1)."""
    lam = mpf(order)
    return mp.exp((lam - 1) * (mpf(rdp) - mpf(epsilon))) / (lam - 1) * (1 - 1 / lam) ** lam


def partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a whole number as a sum of falling ones."""
    if total == 0:
        yield ()
    for first in range(min(total, largest or total), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)
