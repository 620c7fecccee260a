"""Which functions of `mcage` do what each command does, and how options are called there."""

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "sweep": ("run_sweep",),
    "show": ("open_results",),
    "compare": ("compare",),
    "pareto": ("pareto",),
    "report": ("write_report",),
    "replay": ("replay",),
    "avf": ("avf",),
    "inject": ("inject",),
    "vmin": ("vmin",),
    "rare": ("failure_probability", "vdd_for_probability"),
    "sensitivity": ("sensitivity",),
    "reproduce": ("reproduce",),
    "faults": ("faults", "fit_faults"),
    "techniques": ("TECHNIQUES",),
    "nbti": ("nbti",),
    "merge": ("merge",),
    "status": ("status",),
    "verify": ("verify",),
    "trace import": ("import_traces",),
    "trace emulate": ("emulate",),
    "trace list": ("bundled_traces",),
    "trace show": ("open_trace",),
    "trace validate": ("load_trace",),
    "gpu both": ("run",),
    "gpu gating": ("run",),
    "gpu heterogeneity": ("run",),
    "gpu exchange": ("exchange",),
    "gpu optimum": ("optimum",),
    "gpu temperature": ("temperature",),
}
"""Each command and the names in `mcage` that do the same, with the names of its options."""

OF_THE_INSTALLATION = ("doctor", "cache", "docs", "cite")
"""Commands about what is installed, which compute nothing: no function does the same."""

OF_TERMINALS = {
    **dict.fromkeys(("--json", "--csv", "--latex", "--markdown"), "the form of what is printed"),
    **dict.fromkeys(("--sort", "--label", "--wide", "--all"), "what is printed, and how called"),
    "--list": "prints constants with their sources",
    **dict.fromkeys(("--set", "--show-spec", "--trust", "--help-all"), "how a spec is typed"),
}
"""Options that change what a terminal shows, or how something is typed there, and nothing else."""

OTHER_NAMES = {
    "show": {
        "--where": "results.sel",
        "--compare": "results.mcage.paired",
        "--causes": "results.mcage.causes",
        "--by": "results.mcage.flips_by",
        "--rate-at": "results.mcage.rate_at",
        "--figure": "results.mcage.plot_survival",
        **dict.fromkeys(("--fit", "--slices-per-chip", "--spare-slices"), "mcage.stats.survival"),
    },
    "pareto": dict.fromkeys(("--figure", "--x", "--y"), "results.mcage.plot_pareto"),
    "replay": {
        "--fault-map": "fault_maps",
        "--vdd": "vdd_volts",
        **dict.fromkeys(("--technology", "--costs", "--vdd-scaling"), "technology"),
        "--devices": "engine",
    },
    "rare": {"--age": "age_years"},
    "sensitivity": {
        "--range": "ranges",
        "--out": "the result",
        "--progress": "a bar, in notebooks",
    },
    "nbti": {"--constant": "constants"},
    "trace import": {"--slice": "slices"},
}
"""Options that have another name in Python: several values of one, or a part of the result."""
