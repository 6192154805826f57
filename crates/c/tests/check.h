// What the test programs share.

#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "valkeybloom.h"

// What the program is at, for its messages.
static const char *at = "";

#define CHECK(claim) \
    do { \
        if (!(claim)) { \
            fprintf(stderr, "%s:%d: %s: not so: %s; the last error: %s\n", __FILE__, __LINE__, at, #claim, \
                    valkeybloom_last_error()); \
            exit(1); \
        } \
    } while (0)

#define OK(call) CHECK((call) == VALKEYBLOOM_STATUS_OK)

// A call has to fail with this status, and with a text that has this part.
#define FAILS(status, part, call) \
    do { \
        CHECK((call) == (status)); \
        CHECK(strstr(valkeybloom_last_error(), part) != NULL); \
    } while (0)

// The pointer and the length of a text, as an item.
#define TEXT(text) (const uint8_t *)(text), strlen(text)

#endif
