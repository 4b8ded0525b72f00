// What the shared library exports; everything else is hidden, so that smelt, torch, onnx and onnxruntime share a process.
#pragma once
#if defined(SMELT_STATIC)
#define SMELT_API
#else
#define SMELT_API __attribute__((visibility("default")))
#endif
