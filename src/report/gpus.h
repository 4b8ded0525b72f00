// The GPUs of this machine and what smelt needs for them, as tables.
#pragma once

#include <vector>

#include "report/table.h"

namespace smelt::report {

/// The GPUs with what they do now, the processes on them, and NVIDIA's libraries with what each missing one would give. Where
/// there is no GPU, for JSON a table that says why; else nothing.
void add_gpu_tables(std::vector<Table>& tables, bool as_json);

}  // namespace smelt::report
