#include "smelt/error.h"

namespace smelt {

Error::Error(const std::string& what, std::string next, ExitCode code)
    : std::runtime_error(what), next_(std::move(next)), code_(code) {}

Error Error::at(std::string_view where) const { return Error(std::string(where) + ": " + what(), next_, code_); }

}  // namespace smelt
