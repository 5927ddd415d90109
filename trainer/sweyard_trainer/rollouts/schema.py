"""What is kept of each attempt: the columns of the journal and of the Parquet files, told in docs/rollout-data.md.

Whoever changes a column raises VERSION: files of another version are refused, never misread.
"""

import pyarrow as pa

VERSION = b"1"
VERSION_KEY = b"sweyard.rollouts"


def _field(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


MESSAGE = pa.struct([_field("role", pa.string()), _field("content", pa.string())])
SEGMENT = pa.struct(
    [
        _field("token_ids", pa.list_(_field("element", pa.int32()))),
        _field("loss_mask", pa.list_(_field("element", pa.bool_()))),
        _field("logprobs", pa.list_(_field("element", pa.float32()))),
        _field("weight_versions", pa.list_(_field("element", pa.int32()))),
        pa.field("routed_experts", pa.binary()),
    ]
)
SCHEMA = pa.schema(
    [
        _field("attempt_id", pa.string()),
        _field("task_id", pa.string()),
        _field("group_id", pa.string()),
        _field("outcome", pa.string()),
        _field("reward", pa.float64()),
        pa.field("official", pa.bool_()),
        _field("temperature", pa.float64()),
        # Derived from the columns below, so that a list of attempts need not read them.
        _field("num_turns", pa.int32()),
        _field("num_tokens", pa.int64()),
        _field("num_sampled_tokens", pa.int64()),
        # The attempt's place in the batch that was trained on; null in a journal, in an evaluation and where its group
        # was dropped.
        pa.field("batch_group", pa.int32()),
        pa.field("batch_index", pa.int32()),
        _field("timings", pa.map_(pa.string(), _field("value", pa.float64()))),
        _field("transcript", pa.list_(_field("element", MESSAGE))),
        _field("patch", pa.string()),
        _field("grading_log", pa.string()),
        _field("infra_reason", pa.string()),
        _field("segments", pa.list_(_field("element", SEGMENT))),
    ],
    metadata={VERSION_KEY: VERSION},
)
