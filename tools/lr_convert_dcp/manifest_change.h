#pragma once
/// (pure) The manifest of a checkpoint whose model was converted: the merged file is part of it,
/// and the shards are not once they are to be deleted.

#include "common/contract/checkpoint_layout.h"

namespace lr {

enum class ShardsAre { kKept, kDeleted };

CheckpointManifest WithMergedFile(CheckpointManifest manifest,
                                  const CheckpointFile& merged,
                                  ShardsAre shards);

}  // namespace lr
