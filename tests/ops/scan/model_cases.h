#pragma once

#include "ops/scan/scan.h"

namespace smelt::ops::scan {

Case support_vectors(Choices& c);

}  // namespace smelt::ops::scan
