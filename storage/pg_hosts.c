#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "storage/pg_hosts_priv.h"

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, keyword) == 0) return options->val;
    return NULL;
}

static unsigned count_words(const char *list)
{
    unsigned count = 1;

    if (list == NULL || *list == '\0') return 0;
    for (; *list != '\0'; list++) count += *list == ',';
    return count;
}

unsigned pg_hosts_count(const char *conninfo)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);

    if (options == NULL) return 1; /* libpq says what is wrong */
    const unsigned hosts = count_words(value_of(options, "host")), addresses = count_words(value_of(options, "hostaddr"));
    PQconninfoFree(options);
    return hosts > addresses ? hosts : addresses > 0 ? addresses : 1;
}

/* The words from number `first` on, and then those before it. A list with another number of words is for all hosts, and stays. */
static char *turn(const char *list, unsigned count, unsigned first)
{
    if (count_words(list) != count) return NULL;
    const size_t length = strlen(list);
    char *turned = memory_copy_text(list, length);
    const char *from = list;
    for (unsigned i = 0; i < first; i++) from = strchr(from, ',') + 1;
    if (turned == NULL || from == list) return turned;
    const size_t tail = length - (size_t)(from - list);
    memcpy(turned, from, tail);
    turned[tail] = ',';
    memcpy(turned + tail + 1, list, (size_t)(from - list) - 1);
    return turned;
}

void pg_hosts_turn(const char *conninfo, unsigned count, unsigned first, struct pg_hosts *hosts_out)
{
    PQconninfoOption *options = first == 0 ? NULL : PQconninfoParse(conninfo, NULL);

    *hosts_out = (struct pg_hosts){{"host", "hostaddr", "port"}, {NULL, NULL, NULL}};
    for (size_t i = 0; options != NULL && i < PG_HOST_LISTS; i++)
        hosts_out->lists[i] = turn(value_of(options, hosts_out->keywords[i]), count, first);
    PQconninfoFree(options);
}

void pg_hosts_done(struct pg_hosts *hosts)
{
    for (size_t i = 0; i < PG_HOST_LISTS; i++) free(hosts->lists[i]);
}
