// The machine on which a figure was measured, and the versions of the software that measured it.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace smelt::report {

/// CPU model, cores this process may use, threads, instruction sets, memory, kernel.
std::vector<Fact> machine_facts(int threads);
/// smelt, ONNX, oneDNN, compiler.
std::vector<Fact> version_facts();
/// "smelt 0.1.0 (onnx 1.23.2, oneDNN 3.2.0)"
std::string version_line();

}  // namespace smelt::report
