"""Make the templates that ship with the catalogue, and pack them.

    python -m scripts.templates make FOLDER [--variants forward/eager/fp32 …]
    python -m scripts.templates make FOLDER --suggested pc1 b200
    python -m scripts.templates pack FOLDER
    python -m scripts.templates unpack FOLDER

`unpack` writes what ships as `make` had written it. `make` goes on where it ended:
FOLDER has one file per model and variant. Every template is proved at further sizes;
a trace of the whole model in each piece proves that layers which are built alike run
alike. With
`--suggested` it makes what `suggest` tries on these machines: other settings, and
other values in configs. `pack` writes the file of the package.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from scripts.template_packing import Entry, pack

from irene.analyse.config_fields import changed_config, fields_of, read_config
from irene.analyse.subject import Subject
from irene.analyse.suggest import RULES, Situation
from irene.errors import NoAttentionError, UsageError
from irene.predict.machines.finding import find_machine
from irene.spec import RunSpec
from irene.trace import catalogue
from irene.trace.sources import Source, config_key, locate
from irene.trace.templates.template import Template
from irene.trace.templates.trees import variant_of

VARIANTS = (
    "forward/eager/fp32", "forward/sdpa/bf16", "forward/sdpa/fp32",
    "forward/eager/bf16", "forward/eager/fp16", "forward/sdpa/fp16",
    "decode/eager/fp32", "prefill/eager/fp32", "train/eager/fp32",
    "train/sdpa/bf16", "decode/sdpa/bf16", "prefill/sdpa/bf16",
    "decode/sdpa/fp32", "prefill/sdpa/fp32", "train/sdpa/fp32",
    "decode/eager/bf16", "prefill/eager/bf16", "train/eager/bf16",
    "train/sdpa/fp16", "decode/sdpa/fp16", "prefill/sdpa/fp16",
    "decode/eager/fp16", "prefill/eager/fp16", "train/eager/fp16",
)  # fmt: skip
"""Phase, attention and dtype, the most asked first; bf16 before fp16."""
TRIED = ((1, 7), (3, 16), (2, 33))
"""Sizes at which a run that cannot be is tried."""


def make(folder: Path, wanted: Iterable[tuple[str, str]]) -> None:
    """Make what is not there yet, of variants and models."""
    for variant, name in wanted:
        path = folder / variant / f"{name}.json"
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        start = time.process_time()
        fields = _made(folder, variant, name)
        path.write_text(json.dumps(fields, separators=(",", ":")))
        told = next((f"{k}: {fields[k]}" for k in OTHERS if k in fields), "made")
        took = time.process_time() - start
        print(f"{variant} {name} {took:.1f} s {told}", flush=True)


class _Asked(Situation):
    """Notes what rules would try, and tries nothing."""

    def __init__(self, base: Subject) -> None:
        super().__init__(base)
        self.subjects: list[Subject] = []

    def try_out(self, change: Mapping[str, Any]) -> None:
        """Note a change."""
        self.subjects.append(self.base.changed(change))


def suggested(models: list[str], machine: str) -> Iterator[tuple[str, str]]:
    """Variants and models that `suggest` tries on a machine."""
    for name in models:
        situation = _Asked(Subject(RunSpec(name), machine))
        for rule in RULES.values():
            rule(situation)
        for each in situation.subjects:
            source = replace(locate(each.run.model), changes=each.fields)
            run = each.run.resolved(find_machine(machine))
            yield variant_of(run, source), source.name


OTHERS = ("none", "refused", "like")
"""What a file may have in a template's place: why there is none."""


def _made(folder: Path, variant: str, name: str) -> dict[str, Any]:
    """The template of a model and variant, what it is like, or why there is none."""
    from irene.trace.templates.fitting import NoTemplateError
    from irene.trace.templates.making import is_renamed, make_template

    spec, changes = read_variant(name, variant)
    like = variant.replace("fp16", "bf16")
    try:
        if like != variant and (folder / like / f"{name}.json").exists():
            known = json.loads((folder / like / f"{name}.json").read_text())
            if "pieces" in known and is_renamed(
                resolved(spec, changes), spec, Template.from_dict(known)
            ):
                return {"like": like}
        return make_template(resolved(spec, changes), spec).to_dict()
    except NoTemplateError as error:
        refused = None if "?" in variant else _refused(spec)
        return {"refused": refused} if refused else {"none": str(error)}


def read_variant(name: str, variant: str) -> tuple[RunSpec, dict[str, Any]]:
    """The run that a variant means, and what is changed in the model's config."""
    settings, *words = variant.split("?")
    run: dict[str, Any] = dict(
        zip(("phase", "attention", "dtype"), settings.split("/"), strict=True)
    )
    pairs = (word.partition("=") for word in words)
    changes = {field: json.loads(value) for field, _, value in pairs}
    if "model_class" in changes:
        run["model_class"] = changes.pop("model_class")
    return RunSpec.asked(name, run), changes


def resolved(spec: RunSpec, changes: Mapping[str, Any]) -> Any:
    """What to build for a run, as a question would have it built."""
    from irene.trace.limits import DEFAULT_LIMITS
    from irene.trace.models import resolve

    if not changes:
        return resolve(spec.model, DEFAULT_LIMITS, spec.model_class)
    base = read_config(spec.model, spec.model_class, DEFAULT_LIMITS)
    config = changed_config(base, changes)
    return resolve(config, DEFAULT_LIMITS, base.model_class)


def _refused(spec: RunSpec) -> list[str] | None:
    """The error that a run ends with at every size: class, message, path, attention."""
    from irene.trace.limits import DEFAULT_LIMITS
    from irene.trace.models import build, resolve
    from irene.trace.tracer import trace_spec

    attention = spec.attention
    try:
        build(resolve(spec.model, DEFAULT_LIMITS), spec)
    except NoAttentionError:
        attention = "eager"
    found = set()
    open_spec = spec.chosen_as(attention=spec.attention)
    for batch, length in TRIED:
        try:
            trace_spec(open_spec.changed(batch_size=batch, seq_len=length))
            return None
        except UsageError as error:
            path = getattr(error, "path", "")
            found.add((type(error).__name__, str(error), path))
    return [*found.pop(), attention] if len(found) == 1 else None


def write(folder: Path) -> None:
    """Write the file of the package from all that was made."""
    from irene.trace.templates import keeping

    entries = list(_entries(folder))
    packed = pack(entries, {name: _config(name) for name in catalogue.entries()})
    path = Path(keeping.__file__).parent / keeping.SHIPPED
    path.write_bytes(packed)
    print(f"{len(entries):,} templates, {len(packed):,} bytes")


def _config(name: str) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """A model's config as transformers reads it, and which fields can be left out."""
    from irene.trace.models import config_of

    fields = dict(catalogue.entries()[name].config)
    model_type = fields.pop("model_type")
    whole = config_of(model_type, fields)
    left = fields
    for field in fields:
        fewer = {key: value for key, value in left.items() if key != field}
        with suppress(Exception):  # transformers refuses some
            left = (
                fewer if _read(config_of(model_type, fewer)) == _read(whole) else left
            )
    return *fields_of(whole), sorted(set(fields) - set(left))


def _read(config: Any) -> dict[str, Any]:
    """All fields; heads of no width of their own share that of the model."""
    fields: dict[str, Any] = config.to_dict()
    if "head_dim" in fields and fields["head_dim"] is None:
        fields["head_dim"] = config.hidden_size // config.num_attention_heads
    return fields


def unpack(folder: Path) -> None:
    """Write what ships as files, one per model and variant."""
    from irene.trace.templates import keeping

    for name, entry in catalogue.entries().items():
        config = config_key(Source(name, "", entry=entry))
        for variant, fields in keeping.shipped_fields(name).items():
            template = keeping.shipped(name, config, variant)
            if template is None:
                continue
            path = folder / variant / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            is_plain = any(word in fields for word in OTHERS)
            path.write_text(json.dumps(fields if is_plain else template.to_dict()))


def _entries(folder: Path) -> Iterator[Entry]:
    """What was made, like after like."""
    folders = (str(path.relative_to(folder)) for path in folder.glob("*/*/*"))
    changed = sorted(variant for variant in folders if variant not in VARIANTS)
    for name, known in sorted(
        catalogue.entries().items(),
        key=lambda each: (each[1].kind, each[1].config["model_type"], each[0]),
    ):
        family = f"{known.kind}/{known.config['model_type']}"
        config = config_key(Source(name, "", entry=known))
        for variant in [*VARIANTS, *changed]:
            path = folder / variant / f"{name}.json"
            fields = json.loads(path.read_text()) if path.exists() else {"none": ""}
            if "none" not in fields:
                yield Entry(name, family, config, variant, fields)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "pack", "unpack"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--models", nargs="*", default=list(catalogue.entries()))
    parser.add_argument("--suggested", nargs="*", metavar="MACHINE")
    options = parser.parse_args()
    if options.what == "make" and options.suggested:
        for machine in options.suggested:
            make(options.folder, suggested(options.models, machine))
    elif options.what == "make":
        make(options.folder, product(options.variants, options.models))
    else:
        {"pack": write, "unpack": unpack}[options.what](options.folder)


if __name__ == "__main__":
    main()
