// What the Python module calls beside Session: the verbs, results as the JSON and the tables that the command prints.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "smelt/session.h"

namespace smelt::python {

/// (JSON, printed tables)
using Printed = std::pair<std::string, std::string>;

Session session_from_bytes(const std::string& model, const Options& options);
/// Writes the plan; returns the path.
std::string optimize(const std::string& model, const std::string& output, const Options& options, bool copy_weights);
Printed profile(const std::string& model, const Options& options, const std::map<std::string, Tensor>& feeds, int iterations);
Printed explain(const std::string& model, const Options& options);
Printed bench(const std::string& model, const std::string& against, const Options& options, const std::map<std::string, Tensor>& feeds, int iterations, double duration_s);
std::string version();

}  // namespace smelt::python
