// Models on the same cores as tables: what `smelt profile A --with B` prints.
#pragma once

#include <string>
#include <vector>

#include "profile/contention.h"
#include "report/table.h"

namespace smelt::report {

/// One way to have the models run together, as it was measured. The first is that in which nothing is done about it.
struct Arranged {
  std::string name, how;  // how: what to do for it
  std::vector<profile::Served> served;
};

/// One row a model: together against alone, what it lost to what, and what was expected.
Table contention_table(const std::vector<std::string>& names, const std::vector<profile::Alone>& alone,
                       const std::vector<profile::Served>& together, const std::vector<double>& predicted);
/// One row a step of a model.
Table contended_step_table(const profile::Alone& alone, const profile::Served& together);
/// One row an arrangement: the first model's latency, and what the others get done. The note names the one of the lowest p99.
Table remedy_table(const std::string& first, const std::vector<Arranged>& arranged);

}  // namespace smelt::report
