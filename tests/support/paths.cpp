#include "support/paths.h"

namespace smelt {

std::filesystem::path source_dir() { return SMELT_SOURCE_DIR; }
std::filesystem::path build_dir() { return SMELT_BINARY_DIR; }
std::string python() { return SMELT_PYTHON; }

}  // namespace smelt
