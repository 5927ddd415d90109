"""What is kept of each attempt: the columns of the journal and of the Parquet files, told in docs/rollout-data.md.

Whoever changes a column raises VERSION: files of another version are refused, never misread.
"""

import pyarrow as pa

VERSION = b"1"
VERSION_KEY = b"sweyard.rollouts"


def required(name: str, kind: pa.DataType) -> pa.Field:
    """A field that is never null."""
    return pa.field(name, kind, nullable=False)


MESSAGE = pa.struct([required("role", pa.string()), required("content", pa.string())])
SEGMENT = pa.struct(
    [
        required("token_ids", pa.list_(required("element", pa.int32()))),
        required("loss_mask", pa.list_(required("element", pa.bool_()))),
        required("logprobs", pa.list_(required("element", pa.float32()))),
        required("weight_versions", pa.list_(required("element", pa.int32()))),
        pa.field("routed_experts", pa.binary()),
    ]
)
SCHEMA = pa.schema(
    [
        required("attempt_id", pa.string()),
        required("task_id", pa.string()),
        required("group_id", pa.string()),
        required("outcome", pa.string()),
        required("reward", pa.float64()),
        pa.field("official", pa.bool_()),
        required("temperature", pa.float64()),
        # Derived from the columns below, so that a list of attempts need not read them.
        required("num_turns", pa.int32()),
        required("num_tokens", pa.int64()),
        required("num_sampled_tokens", pa.int64()),
        # The attempt's place in the batch that was trained on; null in a journal, in an evaluation and where its group
        # was dropped.
        pa.field("batch_group", pa.int32()),
        pa.field("batch_index", pa.int32()),
        required("timings", pa.map_(pa.string(), required("value", pa.float64()))),
        required("transcript", pa.list_(required("element", MESSAGE))),
        required("patch", pa.string()),
        required("grading_log", pa.string()),
        required("infra_reason", pa.string()),
        required("segments", pa.list_(required("element", SEGMENT))),
    ],
    metadata={VERSION_KEY: VERSION},
)
