// Throwing smelt::Error with a formatted line.
#pragma once

#include <fmt/core.h>

#include <string>

#include "smelt/error.h"

namespace smelt {

template <class... A> [[noreturn]] void fail(fmt::format_string<A...> f, A&&... a) {
  throw Error(fmt::format(f, std::forward<A>(a)...));
}
template <class... A> [[noreturn]] void fail_usage(fmt::format_string<A...> f, A&&... a) {
  throw Error(fmt::format(f, std::forward<A>(a)...), {}, ExitCode::usage);
}
template <class... A> [[noreturn]] void fail_unsupported(fmt::format_string<A...> f, A&&... a) {
  throw Error(fmt::format(f, std::forward<A>(a)...), {}, ExitCode::unsupported);
}

}  // namespace smelt
