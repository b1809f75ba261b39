"""Click's messages about options and arguments in the form of ours: the rule, then the value, then the nearest name."""

import re

import click

_KINDS = {"float": "a number", "integer": "a whole number"}
_USUAL = {
    "--sparsity": "--rho",
    "--ratio": "--rho",
    "--output": "--out",
    "--samples": "--k",
    "--nsamples": "--k",
    "--seqlen": "--n",
    "--method": "--attention",
    "--calib": "--calibration",
    "--dataset": "--calibration",
}
"""What options that do the same are called elsewhere."""
_WRONG_KIND = re.compile(r"(.+) is not a valid (float|integer)( range)?\.")
_OUT_OF_RANGE = re.compile(r"(.+) is not in the range (.+)\.")
_NO_CHOICE = re.compile(r"(['\"])(.*)\1 is not (one of )?'.*'\.")


def rule_first(error: click.ClickException) -> str:
    """Return the message of a usage error, for a value as ``--rho must be a number; got 'half'``."""
    if isinstance(error, click.NoSuchOption):
        usual = _USUAL.get(error.option_name, "")
        taken = {option for param in error.ctx.command.params for option in param.opts} if error.ctx else set()
        possible = [usual] if usual in taken else sorted(error.possibilities or ())
        meant = f"; did you mean {' or '.join(possible)}?" if possible else ""
        return f"an option must be one that --help lists; got {error.option_name!r:.60}{meant}"
    if isinstance(error, click.BadOptionUsage) and error.message.endswith("requires an argument."):
        return f"{error.option_name} must be followed by its value"
    param = error.param if isinstance(error, click.BadParameter) else None
    if param is None:
        return error.format_message()
    name = param.human_readable_name if isinstance(param, click.Argument) else max(param.opts, key=len)
    name = name.rstrip(".")
    choices = [str(one) for one in param.type.choices] if isinstance(param.type, click.Choice) else []
    if isinstance(error, click.MissingParameter):
        return f"{name} must be given{choices and ', one of ' + ', '.join(choices) or ''}"
    if wrong := _WRONG_KIND.fullmatch(error.message):
        share = re.fullmatch(r"'([0-9.]+) ?%'", wrong[1])
        meant = f"; did you mean {float(share[1]) / 100:g}?" if share else ""
        return f"{name} must be {_KINDS[wrong[2]]}; got {wrong[1]:.60}{meant}"
    if wrong := _OUT_OF_RANGE.fullmatch(error.message):
        return f"{name} must be in the range {wrong[2]}; got {wrong[1]:.60}"
    if choices and (wrong := _NO_CHOICE.fullmatch(error.message)):
        from attnprune_verify.values import nearest  # loads NumPy

        return f"{name} must be one of {', '.join(choices)}; got {wrong[2]!r:.60}{nearest(wrong[2], choices)}"
    return f"{name} {error.message}" if error.message.startswith("must ") else f"{name}: {error.message}"
