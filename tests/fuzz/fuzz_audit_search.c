/* A value of a condition of a search, and a list of the index: the first letter names the field, or is '!' for a list. */
#include <assert.h>
#include <string.h>

#include "audit/format/posting.h"
#include "audit/search.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_list(struct bytes list)
{
    struct posting posting = {{0}}, again = {{0}};
    uint8_t written[POSTING_BYTES];
    struct error err = {0};

    if (!posting_add(&posting, list, &err).ok) return;
    const size_t length = posting_write(&posting, written);
    assert(length == 0 || posting_add(&again, (struct bytes){written, length}, &err).ok);
    assert(memcmp(&posting, &again, sizeof posting) == 0);
}

/* The form that is kept is its own form. */
static void take_value(enum search_field field, const char *value)
{
    struct search_condition condition = {.field = field}, again = {.field = field};
    struct error err = {0};

    if (!search_condition_add(&condition, value, &err).ok) return;
    assert(condition.count == 1 && strlen(condition.values[0]) <= SEARCH_VALUE_MAX);
    assert(search_condition_add(&again, condition.values[0], &err).ok && strcmp(again.values[0], condition.values[0]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    if (data[0] == '!') {
        take_list((struct bytes){data + 1, size - 1});
        return 0;
    }
    char *value = memory_copy_text((const char *)data + 1, size - 1);
    if (value != NULL) take_value((enum search_field)(data[0] % SEARCH_FIELD_COUNT), value);
    free(value);
    return 0;
}
