"""The error for results that are not finite: weights can be finite and too large to compute with."""

from data_prep.errors import InputError


def not_finite(results: str) -> InputError:
    """The error for results, such as "Predictions", that hold NaN or infinity."""
    return InputError(
        f"{results} must be finite numbers. Received NaN or infinity: the model's weights are too large to "
        "compute with. Check where it comes from, and whether its training diverged."
    )
