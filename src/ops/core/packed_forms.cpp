#include "ops/core/packed_forms.h"

namespace smelt::ops {
namespace {

thread_local PackedForms* innermost = nullptr;

}  // namespace

PackedForms::PackedForms() : outer_(innermost) { innermost = this; }
PackedForms::~PackedForms() { innermost = outer_; }

void PackedForms::tell(const Tensor& constant, const Tensor& form) {
  if (innermost) innermost->list_.emplace_back(constant, form);
}

}  // namespace smelt::ops
