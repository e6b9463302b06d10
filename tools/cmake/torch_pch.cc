// Holds nothing: the precompiled header that every LibTorch target shares is built with this file.
