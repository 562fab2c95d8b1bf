"""The libraries of the board: their jobs' wrappers and policies, their releases, and needs."""

# By library: wrappers and policies of its job, and releases, oldest first.
OF_DEEPSPEED = ("feature", "boundary", "no_sync")
POLICIES = {
    "accelerate": {
        "ddp": ("feature", "no_sync", "every"),
        "fsdp2": ("feature", "no_sync", "every"),
    },
    "transformers": {"trainer": ("feature", "every")},
    "lightning": {"ddp": ("feature", "no_sync", "every")},
    "deepspeed": {f"zero{stage}": OF_DEEPSPEED for stage in range(4)},
    "megatron-core": {"ddp": ("feature", "every"), "ddp_overlap": ("feature", "every")},
    "pytorch-ignite": {"ddp": ("feature",)},
    "skorch": {"accelerate": ("feature",)},
    "pytorch-accelerated": {"ddp": ("feature", "clipped")},
    "fastai": {"ddp": ("feature",)},
    "coqui-tts-trainer": {"ddp": ("feature",)},
    "monai": {"ddp": ("feature",)},
    "sentence-transformers": {"trainer": ("feature",)},
    "trl": {"trainer": ("feature",)},
    "torchtnt": {"ddp": ("feature",)},
    "open_clip_torch": {"ddp": ("feature",)},
    "ultralytics": {"ddp": ("feature",)},
    "litgpt": {"ddp": ("feature",)},
    "speechbrain": {"ddp": ("feature",)},
    "mmengine": {"ddp": ("feature",)},
    "mosaicml": {"ddp": ("feature",)},
}
RELEASES = {
    "accelerate": (
        "1.0.1", "1.2.1", "1.4.0", "1.6.0", "1.7.0", "1.8.1", "1.9.0", "1.10.1", "1.11.0", "1.12.0",
        "1.13.0", "1.14.0", "1.15.0",
    ),
    "transformers": (
        "4.44.2", "4.45.2", "4.46.1", "4.46.3", "4.47.1", "4.48.3", "4.50.3", "4.53.3", "4.57.6",
        "5.0.0", "5.8.1", "5.16.1", "5.24.0",
    ),
    "lightning": ("2.2.5", "2.3.3", "2.4.0", "2.5.6", "2.6.6"),
    "deepspeed": ("0.14.5", "0.15.4", "0.16.0", "0.16.9", "0.17.6", "0.18.9", "0.19.0", "0.19.8"),
    "megatron-core": ("0.12.3", "0.13.1", "0.14.0", "0.15.3", "0.16.1"),
    "pytorch-ignite": ("0.5.5",),
    "skorch": ("1.4.0",),
    "pytorch-accelerated": ("0.1.61",),
    "fastai": ("2.8.12",),
    "coqui-tts-trainer": ("0.4.0",),
    "monai": ("1.6.1",),
    "sentence-transformers": ("6.2.0",),
    "trl": ("1.16.0",),
    "torchtnt": ("0.2.4",),
    "open_clip_torch": ("3.3.0",),
    "ultralytics": ("8.4.190",),
    "litgpt": ("0.5.13",),
    "speechbrain": ("1.1.2",),
    "mmengine": ("0.10.7",),
    "mosaicml": ("0.32.1",),
}  # fmt: skip
# What it needs of its own; the rest is there already.
NEEDED = {
    "accelerate": (),
    "lightning": (),
    "deepspeed": ("einops", "hjson", "msgpack", "ninja", "py-cpuinfo"),
    "megatron-core": (),
    # Its own list asks for an older huggingface_hub.
    "litgpt": ("jsonargparse==4.41.0", "docstring_parser==0.18.0", "typeshed_client==2.15.0"),
    # Its own list asks for an older torch.
    "mosaicml": (
        "torchmetrics==1.7.4", "torch-optimizer==0.3.0", "pytorch-ranger==0.1.1",
        "torchvision==0.26.0", "requests==2.34.2", "coolname==5.0.0", "py-cpuinfo==9.0.0",
        "importlib_metadata==8.7.0", "zipp==4.1.2", "tabulate==0.9.0", "urllib3==2.8.0",
        "certifi", "charset-normalizer", "mosaicml-cli<0.8", "argcomplete", "arrow", "backoff",
        "gql", "graphql-core", "prompt_toolkit", "questionary", "ruamel.yaml", "termcolor",
        "validators", "wcwidth", "websockets", "tenacity", "lazy-importer",
    ),
}  # fmt: skip
# What other libraries need pip finds out; it does not name these.
NEEDED_TOO = {
    "monai": ("pytorch-ignite==0.5.5",),
    "sentence-transformers": ("datasets", "pyarrow==22.0.0"),
    "open_clip_torch": ("braceexpand==0.1.7", "webdataset==1.0.2", "pandas==3.1.1"),
    "trl": ("pyarrow==22.0.0",),
}
