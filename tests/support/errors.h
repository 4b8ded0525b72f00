// The errors that a test provokes.
#pragma once

#include <optional>
#include <string>

#include "smelt/error.h"

namespace smelt {

/// The Error that `f` throws; nothing when it throws none.
template <class F> std::optional<Error> error_from(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

/// Its message; empty when `f` throws none.
template <class F> std::string error_of(F&& f) {
  const std::optional<Error> e = error_from(f);
  return e ? e->what() : "";
}

}  // namespace smelt
