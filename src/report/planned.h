// A plan's kernels for tables, with their code.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/kernels.h"
#include "run/planned.h"

namespace smelt::report {

/// A row for each launch, in the order of a run: what smelt compiled, and the names of what it did not (libraries, copies).
std::vector<InspectedKernel> kernels_of(const run::PlannedRun& run);
/// The kernels of a step, or those of a name: their entry's, or the problem's that they were made for.
bool is_called(const InspectedKernel& kernel, std::string_view name);
/// Reads what their instructions do, of nvdisasm's listing where that is on PATH, else of PTX. It compiles each of them once more, with the
/// lines of its source.
void add_code(std::vector<InspectedKernel>& kernels, int threads);
/// The program of a kernel and the headers of src/kernels, by the names that its code knows them by.
std::map<std::string, std::string> texts_of(const InspectedKernel& kernel);

}  // namespace smelt::report
