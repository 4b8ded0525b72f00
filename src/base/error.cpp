#include "smelt/error.h"

#include "base/printable.h"

namespace smelt {

// By value, for the API keeps its form.  NOLINTNEXTLINE(performance-unnecessary-value-param)
Error::Error(std::string what, std::string next, ExitCode code)
    : std::runtime_error(printable(what)), next_(printable(next)), code_(code) {}

Error Error::at(std::string_view where) const { return Error(std::string(where) + ": " + what(), next_, code_); }

}  // namespace smelt
