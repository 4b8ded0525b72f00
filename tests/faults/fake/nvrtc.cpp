// libnvrtc.so.13 without anything in it: found before one that works, NVRTC is missing wherever that lies.
