/* A module of the tests that serves a sketch itself: CMS.INFO, and the type CMSk-TYPE. */
#include "module.h"

typedef struct {
    unsigned long version;
    void *methods[32];
} Methods;

#define FUNCTIONS(X)                                                                      \
    X(int, SetModuleAttribs, (Ctx *, const char *, int, int))                             \
    X(int, CreateCommand, (Ctx *, const char *, Command *, const char *, int, int, int))  \
    X(void *, CreateDataType, (Ctx *, const char *, int, Methods *))                      \
    X(int, ReplyWithSimpleString, (Ctx *, const char *))

FUNCTIONS(DECLARE)

static int info(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithSimpleString(ctx, "served");
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    FUNCTIONS(LOOK_UP)
    SetModuleAttribs(ctx, "sketches", 1, 1);
    Methods methods = {.version = 1};
    if (!CreateDataType(ctx, "CMSk-TYPE", 0, &methods)) return ERR;
    return CreateCommand(ctx, "cms.info", info, "readonly fast", 1, 1, 1);
}
