/* A module of the tests that serves a sketch itself: CMS.INFO, and the type CMSk-TYPE; or only the command or the type
 * that its argument names. */
#include <string.h>

#include "module.h"

typedef struct {
    unsigned long version;
    void *methods[32];
} Methods;

#define FUNCTIONS(X)                                                                      \
    X(int, SetModuleAttribs, (Ctx *, const char *, int, int))                             \
    X(int, CreateCommand, (Ctx *, const char *, Command *, const char *, int, int, int))  \
    X(void *, CreateDataType, (Ctx *, const char *, int, Methods *))                      \
    X(const char *, StringPtrLen, (const String *, unsigned long *))                      \
    X(int, ReplyWithSimpleString, (Ctx *, const char *))

FUNCTIONS(DECLARE)

static int info(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithSimpleString(ctx, "served");
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    FUNCTIONS(LOOK_UP)
    SetModuleAttribs(ctx, "sketches", 1, 1);
    const char *only = argc ? StringPtrLen(argv[0], NULL) : NULL;
    const char *command = !only ? "cms.info" : strchr(only, '.') ? only : NULL;
    Methods methods = {.version = 1};
    if (command != only && !CreateDataType(ctx, only ? only : "CMSk-TYPE", 0, &methods)) return ERR;
    return command ? CreateCommand(ctx, command, info, "readonly fast", 1, 1, 1) : OK;
}
