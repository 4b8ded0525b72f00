// Chooses among the finalists of a GPU's plan by what the whole model takes with them (tune/in_model.h).
#pragma once

#include <memory>

namespace smelt::run {

class PlanImpl;

/// For a plan that was prepared: as the tuning cache says, else by runs of what was prepared first, with random inputs. What can not
/// be measured stays as it was chosen alone. Whether steps had finalists: they have none afterwards.
bool choose_in_model(const std::shared_ptr<PlanImpl>& plan);

}  // namespace smelt::run
