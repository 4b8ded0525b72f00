#pragma once

#include "ops/scan/scan.h"

namespace smelt::ops::scan {

Case elementwise(Choices& c);
Case region(Choices& c);
Case byte_region(Choices& c);
Case quantization(Choices& c);
Case movement(Choices& c);
Case reorder(Choices& c);

}  // namespace smelt::ops::scan
