"""Make the templates that ship with the catalogue, and pack them.

    python -m scripts.templates make FOLDER [--variants forward/eager/fp32 …]
    python -m scripts.templates pack FOLDER

`make` goes on where it ended: FOLDER has one file per model and variant. Every template
is proved at further sizes; one trace of the whole model per phase proves that layers
which are built alike run alike. `pack` writes the file of the package.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.sources import Source
from irene.trace.templates.template import Template
from irene.trace.templates.trees import config_key

VARIANTS = (
    "forward/eager/fp32", "forward/sdpa/bf16", "forward/sdpa/fp32",
    "forward/eager/bf16", "prefill/eager/fp32", "decode/eager/fp32",
    "train/eager/fp32", "train/sdpa/bf16", "prefill/sdpa/fp32", "decode/sdpa/fp32",
    "train/sdpa/fp32", "prefill/eager/bf16", "decode/eager/bf16",
    "prefill/sdpa/bf16", "decode/sdpa/bf16", "train/eager/bf16",
)  # fmt: skip
"""Phase, attention and dtype, the most asked first."""
PROVED_WHOLE = ("forward/eager/fp32", "train/eager/fp32", "decode/eager/fp32")


def make(folder: Path, variants: list[str]) -> None:
    """Make what is not there yet."""
    from irene.trace.limits import DEFAULT_LIMITS
    from irene.trace.models import resolve
    from irene.trace.templates.fitting import NoTemplateError
    from irene.trace.templates.making import make_template

    for variant in variants:
        phase, attention, dtype = variant.split("/")
        for name in catalogue.entries():
            path = folder / variant / f"{name}.json"
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            run = {"phase": phase, "attention": attention, "dtype": dtype}
            try:
                template = make_template(
                    resolve(name, DEFAULT_LIMITS),
                    RunSpec.asked(name, run),
                    whole=variant in PROVED_WHOLE,
                )
                fields = template.to_dict()
            except NoTemplateError as error:
                fields = {"none": str(error)}
            path.write_text(json.dumps(fields, separators=(",", ":")))
            print(variant, name, fields.get("none", "made"), flush=True)


def pack(folder: Path) -> None:
    """Write the file of the package from all that was made."""
    from irene.trace.templates import keeping

    found = [
        (entry.kind, entry.config["model_type"], variant, name)
        for name, entry in catalogue.entries().items()
        for variant in VARIANTS
    ]
    templates = [each for key in sorted(found) for each in _read(folder, *key[2:])]
    packed = keeping.pack(templates)
    path = Path(keeping.__file__).parent / keeping.SHIPPED
    path.write_bytes(packed)
    print(f"{len(templates):,} templates, {len(packed):,} bytes")


def _read(
    folder: Path, variant: str, name: str
) -> Iterator[tuple[str, str, str, Template]]:
    path = folder / variant / f"{name}.json"
    fields = json.loads(path.read_text()) if path.exists() else {"none": ""}
    if "none" not in fields:
        key = config_key(Source(name, "", entry=catalogue.entries()[name]))
        yield name, key, variant, Template.from_dict(fields)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "pack"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    options = parser.parse_args()
    if options.what == "make":
        make(options.folder, options.variants)
    else:
        pack(options.folder)


if __name__ == "__main__":
    main()
