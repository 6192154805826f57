/* A module of the tests that stands for one with Bloom filters and without chunks: of its commands there is BF.INFO. */
#include "module.h"

#define FUNCTIONS(X)                                                                      \
    X(int, SetModuleAttribs, (Ctx *, const char *, int, int))                             \
    X(int, CreateCommand, (Ctx *, const char *, Command *, const char *, int, int, int))  \
    X(int, ReplyWithError, (Ctx *, const char *))

FUNCTIONS(DECLARE)

static int info(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithError(ctx, "ERR not found");
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    FUNCTIONS(LOOK_UP)
    SetModuleAttribs(ctx, "chunkless", 1, 1);
    return CreateCommand(ctx, "bf.info", info, "readonly", 1, 1, 1);
}
