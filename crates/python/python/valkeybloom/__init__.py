from ._core import Bloom, Chunks, CountMin, CuckooFilter, TDigest, TopK, __version__
