/* Several hosts in a connection string: their number, and the order in which an attempt tries them. */
#include "tests/support/unit.h"

#include <string.h>

#include "storage/pg_hosts_priv.h"

static const struct row {
    const char *name, *conninfo;
    unsigned count, first;
    const char *host, *address, *port; /* NULL: as in the connection string */
} rows[] = {
    {"no host", "dbname=x", 1, 0, NULL, NULL, NULL},
    {"one host", "host=a port=5", 1, 0, NULL, NULL, NULL},
    {"the first of two", "host=a,b", 2, 0, NULL, NULL, NULL},
    {"the second of two", "host=a,b", 2, 1, "b,a", NULL, NULL},
    {"the third of three", "host=one,two,three port=1,2,3", 3, 2, "three,one,two", NULL, "3,1,2"},
    {"the second of three", "host=one,two,three port=1,2,3", 3, 1, "two,three,one", NULL, "2,3,1"},
    {"one port for all", "host=a,b port=5432", 2, 1, "b,a", NULL, NULL},
    {"addresses", "hostaddr=10.0.0.1,10.0.0.2", 2, 1, NULL, "10.0.0.2,10.0.0.1", NULL},
    {"both", "host=a,b hostaddr=10.0.0.1,10.0.0.2 port=1,", 2, 1, "b,a", "10.0.0.2,10.0.0.1", ",1"},
    {"a default host", "host=a, port=1,2", 2, 1, ",a", NULL, "2,1"},
    {"a URI", "postgresql://a:1,b:2/x", 2, 1, "b,a", NULL, "2,1"},
    {"no connection string", "host", 1, 0, NULL, NULL, NULL},
};

static void check_list(const char *name, const char *is, const char *wanted)
{
    if ((is == NULL) != (wanted == NULL) || (is != NULL && strcmp(is, wanted) != 0))
        fail_msg("%s: %s", name, is == NULL ? "unchanged" : is);
}

static void check_row(void **state)
{
    const struct row *row = *state;
    struct pg_hosts hosts;

    assert_int_equal(pg_hosts_count(row->conninfo), row->count);
    pg_hosts_turn(row->conninfo, row->count, row->first, &hosts);
    check_list(row->name, hosts.lists[0], row->host);
    check_list(row->name, hosts.lists[1], row->address);
    check_list(row->name, hosts.lists[2], row->port);
    pg_hosts_done(&hosts);
}

int main(void)
{
    return RUN_TABLE(rows, check_row);
}
