"""Numbers that others published, to compare with.

IrEne: Cao, Lal, Trivedi, Balasubramanian, "IrEne: Interpretable Energy Prediction for
Transformers", ACL 2021; PC1 only. Errors in percent.
"""

from __future__ import annotations

from typing import NamedTuple

MODELS = (
    "bert-base-uncased",
    "distilbert-base-uncased",
    "roberta-base",
    "gpt2",
    "distilgpt2",
    "openai-gpt",
)
"""In the order of the paper's columns."""


class TreeCounts(NamedTuple):
    """A row of Table 4."""

    trees: int
    ml: int
    module: int
    depth: int


TABLE_4 = {
    "bert-base-uncased": TreeCounts(28, 3864, 2100, 6),
    "distilbert-base-uncased": TreeCounts(28, 1932, 560, 5),
    "gpt2": TreeCounts(27, 2997, 972, 4),
}

# By model, the average last.
TABLE_5_UTILISATION = (57.9, 56.3, 62.5, 62.6, 55.9, 61.8, 57.8)
TABLE_5_IRENE = (5.8, 11.6, 7.1, 3.5, 2.2, 2.7, 5.5)
TABLE_6 = (5.37, 5.93, 5.44, 14.92, 14.73, 13.98, 8.54)
TABLE_11 = (32.54, 62.80, 13.36, 24.96, 35.93, 42.37, 35.33)

TABLE_7 = {
    "Embedding": 0.65,
    "LayerNorm": 0.89,
    "Linear": 0.60,
    "Tanh": 0.82,
    "MatMul": 0.61,
    "Softmax": 1.0,
    "Conv1D": 0.58,
}
TABLE_7_AVERAGE = 0.70

# ml, module, model; by the name of our feature set.
TABLE_8 = {
    "all": (0.70, 8.54, 5.52),
    "model": (5.76, 11.54, 7.08),
    "resource": (0.63, 8.87, 7.32),
}

# module, model; by the name of our method.
TABLE_9 = {
    "irene": (8.54, 5.52),
    "stepwise": (9.28, 14.84),
    "sum": (16.42, 17.69),
    "unstructured": (78.0, 39.79),
}

# Tables 10 and 12: share of energy, %, by class in the data.
SHARES = {
    "bert-base-uncased": {
        "BertOutput": 31.89,
        "BertSelfAttention": 29.26,
        "BertIntermediate": 27.97,
        "BertSelfOutput": 9.74,
        "BertEmbeddings": 0.34,
        "BertPooler": 0.11,
    },
    "roberta-base": {
        "RobertaSelfAttention": 31.24,
        "RobertaIntermediate": 30.57,
        "RobertaOutput": 28.64,
        "RobertaSelfOutput": 9.11,
        "RobertaEmbeddings": 0.41,
        "RobertaPooler": 0.03,
    },
    "distilbert-base-uncased": {
        "FFN": 57.23,
        "MultiHeadSelfAttention": 39.46,
        "LayerNorm": 2.69,
        "Embeddings": 0.62,
    },
    "gpt2": {"MLP": 59.13, "Attention": 37.94, "LayerNorm": 2.84, "Embedding": 0.1},
    # Printed there under DistilBERT's names of the same modules.
    "distilgpt2": {
        "MLP": 57.50,
        "Attention": 39.43,
        "LayerNorm": 2.86,
        "Embedding": 0.21,
    },
    "openai-gpt": {
        "MLP": 61.41,
        "Attention": 35.70,
        "LayerNorm": 2.79,
        "Embedding": 0.11,
    },
}

# Figure 3: part of the models whose error is below, read off the curve.
FIGURE_3 = ((5.0, 0.50), (16.0, 0.99))

# Figure 5: share of the model's energy, %, by path.
FIGURE_5_MODEL_J = 54.8
FIGURE_5 = {
    "encoder": 99.6,
    "encoder.layer.0": 8.3,
    "encoder.layer.0.attention": 3.3,
    "encoder.layer.0.attention.self": 2.3,
    "encoder.layer.0.attention.output": 0.7,
    "encoder.layer.0.intermediate": 2.3,
    "encoder.layer.0.output": 2.2,
}

SST2_PERCENT = {
    "bert-l2-h128": 83.2,
    "bert-l4-h256": 85.9,
    "bert-l4-h512": 89.7,
    "bert-l8-h512": 89.6,
    "bert-l12-h768": 93.5,
}
"""Accuracy on the test set of SST-2 (GLUE), %.

Tiny, Mini, Small and Medium: Turc et al. 2019, as in the README of
google-research/bert; Base: the original weights, Devlin et al. 2019, Table 1. No others
are published there.
"""
NICKNAMES = {
    "bert-l2-h128": "Tiny",
    "bert-l4-h256": "Mini",
    "bert-l4-h512": "Small",
    "bert-l8-h512": "Medium",
    "bert-l12-h768": "Base",
}
