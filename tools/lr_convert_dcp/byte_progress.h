#pragma once
/// Progress of reading and writing, on stderr: a bar on a terminal, else a line at the begin and
/// every ten seconds.

#include "tools/lr_convert_dcp/merged_file.h"

namespace lr {

/// `is_quiet`: shows nothing.
StartProgress ShowProgress(bool is_quiet);

}  // namespace lr
