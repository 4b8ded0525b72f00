// What the Python module calls beside Session: the verbs, results as the JSON and the tables that the command prints.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "smelt/session.h"

namespace smelt::python {

/// (JSON, printed tables)
using Printed = std::pair<std::string, std::string>;
using Feeds = std::map<std::string, Tensor>;

Session session_from_bytes(const std::string& model, const Options& options);
/// Writes the plan.
Printed optimize(const std::string& model, const std::string& output, const Options& options, bool copy_weights,
                 bool embed_kernels, bool packed_weights);
/// `report`, `trace`: files to write; "" none.
Printed profile(const std::string& model, const Options& options, const Feeds& feeds, int iterations, const std::string& report,
                const std::string& trace);
/// `kernels`: builds the plan too, and lists the tactics that were not chosen.
Printed explain(const std::string& model, const Options& options, bool kernels);
Printed bench(const std::string& model, const std::string& against, const Options& options, const Feeds& feeds, int iterations,
              double duration_s, const std::string& report);
/// Products as problems (tune/product_text.h), and those of a model where `from` names one. `plot`: an SVG to write; "" none.
Printed tune(const std::vector<std::string>& problems, const std::string& from, const Options& options, const std::string& plot);
/// GPUs of this machine.
int gpu_count();
std::string version();

}  // namespace smelt::python
