"""Joules of plain passes on GPUs: diffusion models and image classifiers, one left out.

ML.ENERGY measured text-to-image and text-to-video models on H100 and B200: joules and
latency of whole generations, which are passes of one transformer, one after the other,
and a decoder of images. Others measured image classifiers of Keras on a desktop with an
RTX 4090, at the wall. Their configs are public; here they are built without weights and
traced, and the time of their kernels in the tables of the GPU is compared with the time
that they took. Two numbers for each GPU are fitted to the other models: what a kernel
takes by its table, and which part of the power limit is drawn. Text encoders are left
out: they are at most 3 % of the FLOPs.

Beside it, in the same run: kernels alone (as their tables have them, with the power of
servings), and FLOPs times one energy.

    pip install diffusers
    IRENE_DATA_DIR=DATA python -m benchmarks.passes
    IRENE_DATA_DIR=DATA python -m benchmarks.passes --write
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.stats import t as student

from irene.predict.machines.finding import find_machine
from irene.predict.machines.gpu import passes as shipped
from irene.predict.machines.gpu.datasheet import Datasheet
from irene.predict.machines.gpu.kernel_work import Work
from irene.predict.machines.gpu.node_ops import traced_ops
from irene.predict.machines.gpu.serving_calibration import UNSEEN, OpKinds
from irene.predict.machines.gpu.wall import walls
from irene.trace.tracer import trace
from irene.tree import ModelTree

COVERAGE = 0.9
HOSTS_S = (0.0, 1e-5, 1.5e-5, 2e-5, 2.5e-5, 3e-5, 4e-5)
"""What launching a kernel may take, s: chosen by the errors of models left out."""
LONG_S = 5e-5
"""Kernels that take so long on average wait for no host: what is fitted to, s."""
DESKTOP = "rtx4090"


def _zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.bfloat16, device="meta")


@dataclass(frozen=True, slots=True)
class Subject:
    """A diffusion model as it was measured.

    Attributes:
        name: On the hub.
        make: Makes its transformer.
        inputs: Of one step, for so many images at once.
        calls: Passes of a step: two where guidance is a pass of its own.
        decode: Makes what turns latents into images.
        latents: Of one image.
    """

    name: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[int], dict[str, Any]]
    calls: int
    decode: Callable[[], torch.nn.Module]
    latents: tuple[int, ...]


class _Decoder(torch.nn.Module):
    def __init__(self, autoencoder: Any) -> None:
        super().__init__()
        self.autoencoder = autoencoder

    def forward(self, latents: torch.Tensor) -> Any:
        """Images."""
        return self.autoencoder.decode(latents, return_dict=False)[0]


def _images(channels: int) -> Any:
    blocks = 4
    return import_module("diffusers").AutoencoderKL(
        latent_channels=channels,
        block_out_channels=(128, 256, 512, 512),
        layers_per_block=2,
        down_block_types=("DownEncoderBlock2D",) * blocks,
        up_block_types=("UpDecoderBlock2D",) * blocks,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )


def _compressed() -> Any:
    blocks = ("ResBlock",) * 3 + ("EfficientViTBlock",) * 3
    channels, scales = (128, 256, 512, 512, 1024, 1024), ((),) * 3 + ((5,),) * 3
    return import_module("diffusers").AutoencoderDC(
        latent_channels=32,
        encoder_block_types=blocks,
        decoder_block_types=blocks,
        encoder_block_out_channels=channels,
        decoder_block_out_channels=channels,
        encoder_layers_per_block=(2, 2, 2, 3, 3, 3),
        decoder_layers_per_block=(3,) * 6,
        encoder_qkv_multiscales=scales,
        decoder_qkv_multiscales=scales,
        upsample_block_type="interpolate",
    )


def subjects() -> list[Subject]:
    """Models by their published configs; images of 1,024 × 1,024, videos of 480 lines.

    Where guidance doubles the batch of a pass, inputs have twice as many rows.
    """
    d: Any = import_module("diffusers")

    def flux(n: int) -> dict[str, Any]:
        return {
            "hidden_states": _zeros(n, 4096, 64), "timestep": _zeros(n),
            "encoder_hidden_states": _zeros(n, 512, 4096), "guidance": _zeros(n),
            "pooled_projections": _zeros(n, 768), "img_ids": _zeros(4096, 3),
            "txt_ids": _zeros(512, 3),
        }  # fmt: skip

    def sd3(n: int) -> dict[str, Any]:
        return _usual(2 * n, (16, 128, 128), (333, 4096)) | {
            "pooled_projections": _zeros(2 * n, 2048)
        }

    def pixart(n: int) -> dict[str, Any]:
        sizes = {"resolution": None, "aspect_ratio": None}
        told = _usual(2 * n, (4, 128, 128), (300, 4096))
        return told | {"added_cond_kwargs": sizes}

    return [
        Subject(
            "black-forest-labs/FLUX.1-dev",
            lambda: d.FluxTransformer2DModel(
                in_channels=64, num_layers=19, num_single_layers=38,
                attention_head_dim=128, num_attention_heads=24,
                joint_attention_dim=4096, pooled_projection_dim=768,
                guidance_embeds=True,
            ),
            flux, 1, lambda: _images(16), (16, 128, 128),
        ),
        Subject(
            "stabilityai/stable-diffusion-3.5-medium",
            lambda: d.SD3Transformer2DModel(
                sample_size=128, patch_size=2, in_channels=16, num_layers=24,
                attention_head_dim=64, num_attention_heads=24,
                joint_attention_dim=4096, caption_projection_dim=1536,
                pooled_projection_dim=2048, out_channels=16, pos_embed_max_size=384,
                dual_attention_layers=tuple(range(13)), qk_norm="rms_norm",
            ),
            sd3, 1, lambda: _images(16), (16, 128, 128),
        ),
        Subject(
            "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
            lambda: d.PixArtTransformer2DModel(
                sample_size=128, num_layers=28, num_attention_heads=16,
                attention_head_dim=72, in_channels=4, out_channels=8,
                cross_attention_dim=1152, caption_channels=4096, patch_size=2,
                norm_type="ada_norm_single", use_additional_conditions=False,
            ),
            pixart, 1, lambda: _images(4), (4, 128, 128),
        ),
        Subject(
            "Efficient-Large-Model/SANA1.5_1.6B_1024px_diffusers",
            lambda: d.SanaTransformer2DModel(
                in_channels=32, out_channels=32, num_attention_heads=70,
                attention_head_dim=32, num_layers=20, num_cross_attention_heads=20,
                cross_attention_head_dim=112, cross_attention_dim=2240,
                caption_channels=2304, mlp_ratio=2.5, sample_size=32, patch_size=1,
                qk_norm="rms_norm_across_heads",
            ),
            lambda n: _usual(2 * n, (32, 32, 32), (300, 2304)),
            1, _compressed, (32, 32, 32),
        ),
        Subject(
            "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
            lambda: d.WanTransformer3DModel(
                num_attention_heads=12, attention_head_dim=128, num_layers=30,
                ffn_dim=8960, in_channels=16, out_channels=16, text_dim=4096,
            ),
            lambda n: _usual(n, (16, 21, 60, 104), (512, 4096)),
            2, d.AutoencoderKLWan, (16, 21, 60, 104),
        ),
        Subject(
            "zai-org/CogVideoX-2b",
            lambda: d.CogVideoXTransformer3DModel(
                num_attention_heads=30, attention_head_dim=64, num_layers=30,
                text_embed_dim=4096, sample_width=90, sample_height=60,
                sample_frames=49, max_text_seq_length=226,
            ),
            lambda n: _usual(2 * n, (13, 16, 60, 90), (226, 4096)),
            1,
            lambda: d.AutoencoderKLCogVideoX(
                down_block_types=("CogVideoXDownBlock3D",) * 4,
                up_block_types=("CogVideoXUpBlock3D",) * 4,
                block_out_channels=(128, 256, 256, 512), layers_per_block=3,
            ),
            (16, 13, 60, 90),
        ),
    ]  # fmt: skip


def _usual(rows: int, latents: Sequence[int], text: Sequence[int]) -> dict[str, Any]:
    return {
        "hidden_states": _zeros(rows, *latents),
        "encoder_hidden_states": _zeros(rows, *text),
        "timestep": _zeros(rows),
    }


@dataclass(frozen=True, slots=True)
class Row:
    """A measured generation of a batch, and what its kernels take by their tables.

    Attributes:
        model: Its name.
        gpu: As `--on` takes it.
        batch: Images or videos at once.
        energy_j: Measured, J.
        time_s: Measured, s.
        table_s: Of each of its kernels, s.
        times: How often each runs.
        alone_j: Predicted for kernels alone, J.
        flops: Of all of it.
        sheet: Of the GPU.
    """

    model: str
    gpu: str
    batch: int
    energy_j: float
    time_s: float
    table_s: Any
    times: Any
    alone_j: float
    flops: float
    sheet: Datasheet

    @property
    def sum_s(self) -> float:
        """Its kernels by their tables, one after the other, s."""
        return float(self.table_s @ self.times)

    @property
    def mean_s(self) -> float:
        """What one of its kernels took, s."""
        return float(self.time_s / self.times.sum())

    @property
    def power_share(self) -> float:
        """Part of the limit that its board drew."""
        board_w = self.energy_j / self.time_s
        if self.gpu == DESKTOP:
            wall = walls()["desktop"]
            board_w = (board_w - wall.fixed_w) / wall.factor
        return board_w / self.sheet.tdp_w

    def pass_(self, told: shipped.Passes) -> tuple[float, float]:
        """J, where it was measured, and s of it by a calibration."""
        busy_s, taken_s = (each @ self.times for each in told.seconds(self.table_s))
        power_w = told.power_share * self.sheet.tdp_w
        board_j = busy_s * power_w + (taken_s - busy_s) * self.sheet.idle_w
        return self.measured_at(board_j, taken_s), float(taken_s)

    def measured_at(self, board_j: float, time_s: float) -> float:
        """J of a board where this was measured: at the wall of a desktop."""
        if self.gpu != DESKTOP:
            return float(board_j)
        return float(walls()["desktop"].joules(np.array(board_j), np.array(time_s), 1))


def classifiers() -> dict[str, tuple[Callable[[], torch.nn.Module], int]]:
    """Image classifiers by their published configs, and the size of their images.

    ResNets of Keras stride elsewhere in a block than those of transformers, which is
    next to nothing in their work.
    """
    t: Any = import_module("transformers")

    def residual(*depths: int) -> Callable[[], torch.nn.Module]:
        return lambda: t.ResNetModel(t.ResNetConfig(depths=[*depths]))

    def convnext(depth: int, width: int) -> Callable[[], torch.nn.Module]:
        sizes = [width * 2**i for i in range(4)]
        config = t.ConvNextConfig(depths=[3, 3, depth, 3], hidden_sizes=sizes)
        return lambda: t.ConvNextModel(config)

    def efficient(width: float, depth: float) -> Callable[[], torch.nn.Module]:
        config = t.EfficientNetConfig(
            width_coefficient=width, depth_coefficient=depth,
            hidden_dim=8 * round(1280 * width / 8),
        )  # fmt: skip
        return lambda: t.EfficientNetModel(config)

    return {
        "ConvNeXtTiny": (convnext(9, 96), 224),
        "ConvNeXtBase": (convnext(27, 128), 224),
        "EfficientNetB0": (efficient(1.0, 1.0), 224),
        "EfficientNetB2": (efficient(1.1, 1.2), 260),
        "EfficientNetB4": (efficient(1.4, 1.8), 380),
        "MobileNetV2": (lambda: t.MobileNetV2Model(t.MobileNetV2Config()), 224),
        "ResNet50V2": (residual(3, 4, 6, 3), 224),
        "ResNet101": (residual(3, 4, 23, 3), 224),
        "ResNet152": (residual(3, 8, 36, 3), 224),
    }


def read_desktop(data: Path) -> Iterator[Row]:
    """Every classifier on the desktop's GPU: the mean of its runs, for each batch."""
    with (data / "wall" / "desktop-imagenet.csv").open() as file:
        measured = [row for row in csv.DictReader(file) if "4090" in row["processor"]]
    for name, (make, side) in classifiers().items():
        with torch.device("meta"):
            model = make().eval()
        some = [row for row in measured if row["model"] == name]
        for batch in sorted({int(row["batch_size"]) for row in some}):
            mine = [row for row in some if int(row["batch_size"]) == batch]
            images = sum(float(row["requests"]) for row in mine) / batch
            joules, seconds = (
                sum(float(row[key]) for row in mine) / images
                for key in ("wall_j", "seconds")
            )
            images_in = torch.zeros(batch, 3, side, side, device="meta")
            parts = [(trace(model, images_in), 1.0)]
            yield _row(name, DESKTOP, batch, (joules, seconds), parts)


def read_rows(data: Path) -> Iterator[Row]:
    """Every generation on one GPU."""
    with (data / "serving" / "mlenergy-v3-diffusion.csv").open() as file:
        measured = [row for row in csv.DictReader(file) if row["num_gpus"] == "1"]
    for subject in subjects():
        some = [row for row in measured if row["model"] == subject.name]
        with torch.device("meta"):
            model = subject.make().to(torch.bfloat16).eval()
            decoder = _Decoder(subject.decode().to(torch.bfloat16)).eval()
        decoded = trace(decoder, _zeros(1, *subject.latents))
        for batch in sorted({int(row["batch_size"]) for row in some}):
            step = trace(model, subject.inputs(batch))
            for row in some:
                if int(row["batch_size"]) != batch:
                    continue
                each_j = (
                    row["energy_per_image_joules"] or row["energy_per_video_joules"]
                )
                took = batch * float(each_j), float(row["batch_latency_s"])
                steps = subject.calls * float(row["inference_steps"])
                parts = [(step, steps), (decoded, float(batch))]
                name = subject.name.split("/")[-1]
                yield _row(name, row["gpu"].lower(), batch, took, parts)


def _row(
    name: str,
    gpu: str,
    batch: int,
    took: tuple[float, float],
    parts: Sequence[tuple[ModelTree, float]],
) -> Row:
    machine: Any = find_machine(gpu)
    told, sheet = machine.calibration, machine.device.sheet
    table_s, times, above_j = [], [], 0.0
    for tree, runs in parts:
        nodes = traced_ops(tree)
        costs = machine.device.costs(nodes.ops, eager=True)
        each_s = costs.time_s * shipped.slower(tree, nodes.ops)
        table_s.append(each_s[nodes.place])
        times.append(runs * tree.multiplicity[nodes.rows])
        work = Work(costs.flops, costs.bytes)
        each_j = told.work_j(OpKinds.of(nodes.ops, sheet), each_s, work, sheet)
        above_j += float(each_j[nodes.place] @ times[-1])
    all_s, all_times = np.concatenate(table_s), np.concatenate(times)
    sum_s = np.array(all_s @ all_times)
    alone_j = float(told.limited_j(np.array(above_j), sum_s, sheet))
    flops = sum(runs * tree.total().flops for tree, runs in parts)
    row = Row(name, gpu, batch, *took, all_s, all_times, alone_j, flops, sheet)
    return replace(row, alone_j=row.measured_at(alone_j, float(sum_s)))


def _middle(values: Iterable[tuple[str, float]]) -> float:
    """Geometric mean of models' medians."""
    by: dict[str, list[float]] = defaultdict(list)
    for model, value in values:
        by[model].append(float(np.log(value)))
    return float(np.exp(np.mean([median(each) for each in by.values()])))


def fit(rows: Sequence[Row], host_s: float) -> shipped.Passes:
    """Two numbers, from batches that do not wait for their host."""
    large = [row for row in rows if row.mean_s >= LONG_S]
    keys = [(row, f"{row.model} {row.gpu}") for row in large]
    return shipped.Passes(
        _middle((key, row.time_s / row.sum_s) for row, key in keys),
        _middle((key, row.power_share) for row, key in keys),
        host_s,
        0.0,
        0.0,
        "",
    )


def errors(
    rows: Sequence[Row], host_s: float, other_gpu: bool = False
) -> list[tuple[Row, float, float]]:
    """Log errors of J and s of every row, its model (and its GPU) left out."""
    found = []
    for model in dict.fromkeys(row.model for row in rows):
        for gpu in dict.fromkeys(row.gpu for row in rows):
            held = [row for row in rows if (row.model, row.gpu) == (model, gpu)]
            told = fit(
                [
                    row
                    for row in rows
                    if row.model != model and (row.gpu != gpu) == other_gpu
                ],
                host_s,
            )
            for row in held:
                joules, seconds = row.pass_(told)
                energy = float(np.log(joules / row.energy_j))
                found.append((row, energy, float(np.log(seconds / row.time_s))))
    return found


def _rms(values: Iterable[float]) -> float:
    return float(np.sqrt(np.mean(np.square(list(values)))))


def width(found: Sequence[tuple[Row, float, float]], place: int) -> float:
    """Half the 90 % interval of one more model, in log units, by Student's t."""
    by: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row, *each in found:
        by[row.model, row.gpu].append(each[place])
    models = len({model for model, _ in by})
    factor = float(student.ppf(0.5 + COVERAGE / 2, models - 1))
    return factor * _rms(median(each) for each in by.values())


def _percent(values: Iterable[float]) -> str:
    each = 100 * np.abs(np.expm1(list(values)))
    return f"{np.median(each):.0f} / {np.quantile(each, 0.9):.0f}"


def _host(rows: Sequence[Row]) -> float:
    """What launching a kernel takes, s, by the errors of models left out."""
    scores = {}
    for each in HOSTS_S:
        found = errors(rows, each)
        scores[each] = _rms(e for _, e, _ in found), _rms(t for *_, t in found)
        told = "{:.3f} (energy), {:.3f} (time)".format(*scores[each])
        print(f"{each * 1e6:.0f} µs a launch: log error {told}")
    host_s = min(scores, key=lambda each: float(np.hypot(*scores[each])))
    print(f"taken: {host_s * 1e6:.0f} µs\n")
    return host_s


def _report(rows: Sequence[Row], host_s: float) -> None:
    found = errors(rows, host_s)
    rates = {
        row.model: _middle(
            (other.model, other.energy_j / other.flops)
            for other in rows
            if other.model != row.model
        )
        for row in rows
    }
    print(
        "| energy, median / p90 of the error, % | this | kernels alone | FLOPs × one |"
    )
    print("|---|---:|---:|---:|")
    groups = [(f"{r.model}, {r.gpu}", r) for r in rows] + [("all", r) for r in rows]
    for name in dict.fromkeys(name for name, _ in groups):
        mine = {id(row) for group, row in groups if group == name}
        some = [each for each in found if id(each[0]) in mine]
        alone = [float(np.log(r.alone_j / r.energy_j)) for r, *_ in some]
        flat = [float(np.log(rates[r.model] * r.flops / r.energy_j)) for r, *_ in some]
        cells = [_percent(e for _, e, _ in some), _percent(alone), _percent(flat)]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\ntime, a model left out: {_percent(t for *_, t in found)} %")
    if len({row.gpu for row in rows}) > 1:
        other = errors(rows, host_s, other_gpu=True)
        print(f"its GPU left out too: energy {_percent(e for _, e, _ in other)} %")
    half = width(found, 0)
    inside = np.mean([abs(e) <= half for _, e, _ in found])
    print(f"inside ± {100 * np.expm1(half):.0f} %: {inside:.0%} of {len(found)}")


def document(
    rows: Sequence[Row], desktop: Sequence[Row], host_s: float, desktop_host_s: float
) -> dict[str, Any]:
    """What ships: for each GPU, for its sibling, and for those that nobody measured."""
    models = len({row.model for row in rows})
    what = f"{models} diffusion models on"
    both = errors(rows, host_s), errors(rows, host_s, other_gpu=True)
    keras = f"{len({row.model for row in desktop})} image classifiers of Keras on it"
    found = {}
    for name, gpus, words in (
        ("h100", ("h100",), f"{what} H100"),
        ("b200", ("b200",), f"{what} B200"),
        ("h200", ("h100",), f"{what} H100, the same chip with other memory"),
        (UNSEEN, ("h100", "b200"), f"{what} H100 and B200, other GPUs"),
        (DESKTOP, (DESKTOP,), keras),
    ):
        some = [row for row in (*rows, *desktop) if row.gpu in gpus]
        waits_s = desktop_host_s if name == DESKTOP else host_s
        told = fit(some, waits_s).to_dict()
        held = errors(some, waits_s) if name == DESKTOP else both[name not in gpus]
        told |= {"energy_width": width(held, 0), "time_width": width(held, 1)}
        found[name] = {
            key: float(f"{value:.3g}") if isinstance(value, float) else value
            for key, value in told.items()
        } | {"source": words}
    return {"schema": shipped.SCHEMA, "passes": found}


def main() -> None:
    """Print errors; `--write` writes the numbers that ship."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write what ships")
    options = parser.parse_args()
    if "IRENE_DATA_DIR" not in os.environ:
        sys.exit("IRENE_DATA_DIR names the folder of the measured data")
    data = Path(os.environ["IRENE_DATA_DIR"])
    rows, desktop = list(read_rows(data)), list(read_desktop(data))
    hosts_s = []
    for some in (rows, desktop):
        hosts_s.append(_host(some))
        _report(some, hosts_s[-1])
        print()
    if options.write:
        path = Path(str(shipped.__file__)).with_name(shipped.FILE)
        text = json.dumps(
            document(rows, desktop, *hosts_s), indent=1, ensure_ascii=False
        )
        path.write_text(text + "\n", encoding="utf-8")
        print(f"\nwrote {path.name}")


if __name__ == "__main__":
    main()
