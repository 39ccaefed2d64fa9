/* The head of a load balancer: read byte by byte and in pieces, with the same end. */
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "gateway/http/proxy_head.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4        "\xc0\x00\x02\x07\x0a\x00\x00\x01\x30\x39\x01\xbb" /* 192.0.2.7:12345 to 10.0.0.1:443 */
#define V6                                       \
    "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x09" \
    "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01" \
    "\x30\x39\x01\xbb"
#define ROW(name_, text_, end_, client_, why_)               \
    {                                                        \
        name_, text_, sizeof(text_) - 1, end_, client_, why_ \
    }

static const struct {
    const char *name, *text;
    size_t size;
    enum proxy_head_end end;
    const char *client, *why;
} rows[] = {
    ROW("IPv4", SIGNATURE "\x21\x11\x00\x0c" V4, PROXY_HEAD_CLIENT, "192.0.2.7", NULL),
    ROW("IPv4 with extensions", SIGNATURE "\x21\x11\x00\x11" V4 "\x04\x00\x02zz", PROXY_HEAD_CLIENT, "192.0.2.7", NULL),
    ROW("IPv6", SIGNATURE "\x21\x21\x00\x24" V6, PROXY_HEAD_CLIENT, "2001:db8::9", NULL),
    ROW("a check of the balancer's own", SIGNATURE "\x20\x00\x00\x00", PROXY_HEAD_OWN, NULL, NULL),
    ROW("the same with addresses, which do not count", SIGNATURE "\x20\x11\x00\x0c" V4, PROXY_HEAD_OWN, NULL, NULL),
    ROW("nothing yet", "", PROXY_HEAD_COMES, NULL, NULL),
    ROW("a part", SIGNATURE "\x21\x11\x00\x0c\xc0\x00", PROXY_HEAD_COMES, NULL, NULL),
    ROW("extensions that are missing", SIGNATURE "\x21\x11\x00\x11" V4 "\x04", PROXY_HEAD_COMES, NULL, NULL),
    ROW("TLS at once", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00", PROXY_HEAD_WRONG, NULL, "signature"),
    ROW("version 1", "PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n", PROXY_HEAD_WRONG, NULL, "signature"),
    ROW("version 1 of the binary form", SIGNATURE "\x11\x11\x00\x0c" V4, PROXY_HEAD_WRONG, NULL, "command"),
    ROW("an unknown command", SIGNATURE "\x22\x11\x00\x0c" V4, PROXY_HEAD_WRONG, NULL, "command"),
    ROW("UDP", SIGNATURE "\x21\x12\x00\x0c" V4, PROXY_HEAD_WRONG, NULL, "TCP over IPv4 or IPv6"),
    ROW("a unix socket", SIGNATURE "\x21\x31\x00\xd8" V4, PROXY_HEAD_WRONG, NULL, "TCP over IPv4 or IPv6"),
    ROW("no family", SIGNATURE "\x21\x00\x00\x00", PROXY_HEAD_WRONG, NULL, "TCP over IPv4 or IPv6"),
    ROW("shorter than an address", SIGNATURE "\x21\x11\x00\x0b" V4, PROXY_HEAD_WRONG, NULL, "shorter"),
    ROW("IPv6 of the length of IPv4", SIGNATURE "\x21\x21\x00\x0c" V4, PROXY_HEAD_WRONG, NULL, "shorter"),
    ROW("one byte too long", SIGNATURE "\x21\x11\x07\xf1" V4, PROXY_HEAD_WRONG, NULL, "too long"),
    ROW("the longest", SIGNATURE "\x21\x11\x07\xf0" V4, PROXY_HEAD_COMES, NULL, NULL),
};

/* Gives the head as many bytes as it wants, at most `piece` at a time. Returns how many it took. */
static size_t feed(struct proxy_head *head, const char *text, size_t size, size_t piece)
{
    size_t taken = 0;

    for (size_t wanted; taken < size && (wanted = proxy_head_wants(head)) > 0;) {
        size_t part = wanted < piece ? wanted : piece;
        if (part > size - taken) part = size - taken;
        proxy_head_take(head, (const uint8_t *)text + taken, part);
        taken += part;
    }
    return taken;
}

static void check_end(size_t i, const struct proxy_head *head)
{
    struct sockaddr_storage client;
    char text[INET6_ADDRSTRLEN] = "";
    const char *why = NULL;

    print_message("%s\n", rows[i].name);
    assert_int_equal(proxy_head_end(head, &client, &why), rows[i].end);
    assert_int_equal(why != NULL, rows[i].why != NULL);
    if (why != NULL) assert_non_null(strstr(why, rows[i].why));
    if (rows[i].client == NULL) return;
    const bool is_four = client.ss_family == AF_INET;
    const void *address = is_four ? (const void *)&((struct sockaddr_in *)&client)->sin_addr
                                  : (const void *)&((struct sockaddr_in6 *)&client)->sin6_addr;
    assert_non_null(inet_ntop(client.ss_family, address, text, sizeof text));
    assert_string_equal(text, rows[i].client);
    assert_int_equal(ntohs(is_four ? ((struct sockaddr_in *)&client)->sin_port : ((struct sockaddr_in6 *)&client)->sin6_port),
                     12345);
}

static void each_row_ends_as_it_says(void **state)
{
    static const size_t pieces[] = {1, 7, 16, 4096};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t p = 0; p < COUNT(pieces); p++) {
            struct proxy_head head = {0};
            const size_t taken = feed(&head, rows[i].text, rows[i].size, pieces[p]);
            check_end(i, &head);
            if (rows[i].end != PROXY_HEAD_WRONG) assert_int_equal(taken, rows[i].size);
        }
}

static void what_follows_belongs_to_somebody_else(void **state)
{
    static const char text[] = SIGNATURE "\x21\x11\x00\x11" V4 "\x04\x00\x02zz"
                                         "\x16\x03\x01";
    struct proxy_head head = {0};

    (void)state;
    assert_int_equal(feed(&head, text, sizeof text - 1, 4096), sizeof text - 1 - 3);
    assert_int_equal(proxy_head_wants(&head), 0);
}

static void a_wrong_byte_ends_it_at_once(void **state)
{
    struct proxy_head head = {0};

    (void)state;
    proxy_head_take(&head, (const uint8_t *)"\x16", 1);
    assert_int_equal(proxy_head_wants(&head), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_ends_as_it_says),
        cmocka_unit_test(what_follows_belongs_to_somebody_else),
        cmocka_unit_test(a_wrong_byte_ends_it_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
