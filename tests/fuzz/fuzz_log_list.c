/* A list of logs that is read has logs with different names, each with keys of its name, within the limits. */
#include <assert.h>
#include <string.h>

#include "audit/format/log_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(log_list) *list = NULL;
    struct error err;

    if (!log_list_read((struct bytes){data, size}, &list, &err).ok) return 0;
    assert(list->count <= LOG_LIST_LOGS_MAX);
    for (size_t i = 0; i < list->count; i++) {
        const struct listed_log *log = &list->logs[i];
        assert(log->key_count > 0 && log->key_count <= LOG_LIST_KEYS_MAX);
        for (size_t k = 0; k < log->key_count; k++) assert(strcmp(log->keys[k].name, log->origin) == 0);
        for (size_t j = 0; j < i; j++) assert(strcmp(list->logs[j].origin, log->origin) != 0);
    }
    return 0;
}
