#include "base/refusal.h"

namespace smelt {

std::string_view name(Reason r) {
  switch (r) {
#define X(id) \
  case Reason::id: return #id;
    SMELT_REASONS(X)
#undef X
  }
  return "?";
}

}  // namespace smelt
