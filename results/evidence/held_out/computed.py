"""What a model that computes takes on this machine, from calibration cells: pure functions.

Two ranks side by side share caches and memory, so each is slower than the model alone, of which the
profile was recorded. How its time divides into layers is the profile's; how long it is, that of
ranks that compute and send nothing.
"""

from statistics import mean

from held_out.page import measured_s

COMPUTE = ("forward", "backward", "copy", "optimizer")


def of_wrapper(wrapper, trials):
    return [trial for trial in trials if trial["cell"]["wrapper"] == wrapper]


def phase_s(trials, phase):
    return mean(trial["phase_s"][phase] for trial in trials)


def side_by_side(profile, trials):
    """Returns the profile, its layers' seconds those of the ranks that send nothing, of one cell,
    and its optimizer's those under DDP."""
    alone = of_wrapper("local", trials)
    (micro_batches,) = {trial["cell"]["accumulation_steps"] for trial in alone}
    layers = [dict(layer) for layer in profile["layers"]]
    for phase in ("forward", "backward"):
        recorded_s = sum(layer[f"{phase}_s"] for layer in layers)
        factor = phase_s(alone, phase) / micro_batches / recorded_s
        for layer in layers:
            layer[f"{phase}_s"] *= factor
    optimizer_s = phase_s(of_wrapper("ddp", trials), "optimizer")
    return profile | {"layers": layers, "optimizer_s": optimizer_s}


def compute_s(trials):
    """What a rank's own thread did in a step, beside waiting."""
    return sum(phase_s(trials, phase) for phase in COMPUTE)


SECONDS = {"compute_s": compute_s, "step_s": measured_s}
