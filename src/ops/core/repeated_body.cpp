#include "ops/core/repeated_body.h"

#include <utility>

namespace smelt::ops {
namespace {

thread_local BodyBinder* asked = nullptr;

}  // namespace

BodyBinderScope::BodyBinderScope(BodyBinder& binder) : outer_(std::exchange(asked, &binder)) {}
BodyBinderScope::~BodyBinderScope() { asked = outer_; }
BodyBinder* BodyBinderScope::innermost() { return asked; }

}  // namespace smelt::ops
