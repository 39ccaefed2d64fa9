/* TLS records to and from the socket: gathered, split, interrupted in the middle, and never lost. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/memory.h"
#include "gateway/http/transport.h"
#include "tests/support/unit.h"

#define RECORD ((size_t)16384)
#define MANY   (12 * RECORD + 77)

struct pair {
    int ours, theirs;
    struct blocks *blocks;
    struct transport transport;
    gnutls_session_t server, client;
    gnutls_psk_server_credentials_t server_key;
    gnutls_psk_client_credentials_t client_key;
    uint8_t wire[4 * MANY]; /* the bytes that the client sent, which the test passes on piece by piece */
    size_t wire_length;
};

static uint8_t content[2 * MANY], received[2 * MANY];

static int find_key(gnutls_session_t session, const char *name, gnutls_datum_t *key)
{
    (void)session;
    (void)name;
    key->data = gnutls_malloc(16);
    key->size = 16;
    memset(key->data, 7, 16);
    return 0;
}

static void make_client(struct pair *pair)
{
    unsigned char key[16];
    const gnutls_datum_t datum = {key, sizeof key};

    memset(key, 7, sizeof key);
    gnutls_psk_allocate_client_credentials(&pair->client_key);
    gnutls_psk_set_client_credentials(pair->client_key, "test", &datum, GNUTLS_PSK_KEY_RAW);
    gnutls_init(&pair->client, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_priority_set_direct(pair->client, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+ECDHE-PSK", NULL);
    gnutls_credentials_set(pair->client, GNUTLS_CRD_PSK, pair->client_key);
    gnutls_transport_set_int(pair->client, pair->theirs);
}

static void make_server(struct pair *pair)
{
    struct error err = {0};

    assert_true(blocks_new(BLOCK_SIZE, &pair->blocks, &err).ok);
    gnutls_psk_allocate_server_credentials(&pair->server_key);
    gnutls_psk_set_server_credentials_function(pair->server_key, find_key);
    gnutls_init(&pair->server, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_priority_set_direct(pair->server, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+ECDHE-PSK:%NO_TICKETS", NULL);
    gnutls_credentials_set(pair->server, GNUTLS_CRD_PSK, pair->server_key);
    transport_enter(&pair->transport, pair->server, pair->ours, pair->blocks);
}

static void shake_hands(struct pair *pair)
{
    int server = GNUTLS_E_AGAIN, client = GNUTLS_E_AGAIN;

    for (int i = 0; i < 100 && (server != 0 || client != 0); i++) {
        if (client != 0) client = gnutls_handshake(pair->client);
        if (server != 0) server = gnutls_handshake(pair->server);
    }
    assert_int_equal(server, 0);
    assert_int_equal(client, 0);
}

static int set_up(void **state)
{
    struct pair *pair = memory_zeroed(1, sizeof *pair);
    int ends[2];

    assert_non_null(pair);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    pair->ours = ends[0];
    pair->theirs = ends[1];
    make_client(pair);
    make_server(pair);
    shake_hands(pair);
    for (size_t i = 0; i < sizeof content; i++) content[i] = (uint8_t)(i * 31 + i / 251);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;

    gnutls_deinit(pair->server);
    gnutls_deinit(pair->client);
    transport_leave(&pair->transport);
    assert_null(pair->transport.inbox);
    assert_null(pair->transport.outbox);
    gnutls_psk_free_server_credentials(pair->server_key);
    gnutls_psk_free_client_credentials(pair->client_key);
    blocks_free(pair->blocks);
    (void)close(pair->ours);
    (void)close(pair->theirs);
    free(pair);
    return 0;
}

/* The bytes that the client can read now, after `have` bytes. */
static size_t read_client(struct pair *pair, size_t have)
{
    ssize_t got;

    while (have < sizeof received && (got = gnutls_record_recv(pair->client, received + have, sizeof received - have)) > 0)
        have += (size_t)got;
    return have;
}

static size_t read_server(struct pair *pair, size_t have)
{
    ssize_t got;

    while (have < sizeof received && (got = gnutls_record_recv(pair->server, received + have, sizeof received - have)) > 0)
        have += (size_t)got;
    return have;
}

/* ---- Out ---- */

static void records_gather_until_the_last(void **state)
{
    struct pair *pair = *state;

    transport_promise(&pair->transport, 3 * RECORD);
    assert_int_equal(gnutls_record_send(pair->server, content, RECORD), RECORD);
    assert_int_equal(gnutls_record_send(pair->server, content + RECORD, RECORD), RECORD);
    assert_int_equal(read_client(pair, 0), 0);
    assert_non_null(pair->transport.outbox);
    assert_int_equal(gnutls_record_send(pair->server, content + 2 * RECORD, RECORD), RECORD);
    assert_int_equal(read_client(pair, 0), 3 * RECORD);
    assert_memory_equal(received, content, 3 * RECORD);
    assert_null(pair->transport.outbox);
}

static void nothing_waits_without_a_promise(void **state)
{
    struct pair *pair = *state;

    for (size_t i = 1; i <= 3; i++) {
        assert_int_equal(gnutls_record_send(pair->server, content, 100), 100);
        assert_int_equal(read_client(pair, 0), 100);
    }
    transport_promise(&pair->transport, 2000); /* too little to gather */
    assert_int_equal(gnutls_record_send(pair->server, content, 1000), 1000);
    assert_int_equal(read_client(pair, 0), 1000);
}

/* The head does not count for the announced length: an answer whose body is smaller than its head is sent as a whole. */
static void a_head_and_its_body(void **state)
{
    static const size_t bodies[] = {1, 300, 5000, 3 * RECORD + 1};
    struct pair *pair = *state;

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        transport_answer(&pair->transport, true, bodies[i]);
        assert_int_equal(gnutls_record_send(pair->server, content, 700), 700);
        for (size_t sent = 0; sent < bodies[i];) {
            const ssize_t part = gnutls_record_send(pair->server, content + 700 + sent, bodies[i] - sent);
            assert_true(part > 0);
            sent += (size_t)part;
        }
        assert_int_equal(read_client(pair, 0), 700 + bodies[i]);
        assert_memory_equal(received, content, 700 + bodies[i]);
        assert_null(pair->transport.outbox);
        transport_rest(&pair->transport);
    }
}

/* Sends as libmicrohttpd does: the same bytes again after GNUTLS_E_AGAIN. The client reads little by little. */
static void a_full_socket_stops_and_goes_on(void **state)
{
    struct pair *pair = *state;
    const int small = 4096;
    size_t sent = 0, got = 0;
    int refused = 0;

    assert_int_equal(setsockopt(pair->ours, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    transport_promise(&pair->transport, MANY);
    while (sent < MANY) {
        const ssize_t part = gnutls_record_send(pair->server, content + sent, MANY - sent);
        if (part > 0) sent += (size_t)part;
        if (part > 0) continue;
        assert_int_equal(part, GNUTLS_E_AGAIN);
        refused++;
        const ssize_t some = gnutls_record_recv(pair->client, received + got, sizeof received - got);
        if (some > 0) got += (size_t)some;
    }
    assert_null(pair->transport.outbox); /* the last one was taken only with all before it */
    got = read_client(pair, got);
    assert_true(refused > 3);
    assert_int_equal(got, MANY);
    assert_memory_equal(received, content, MANY);
}

static void what_was_kept_goes_with_the_goodbye(void **state)
{
    struct pair *pair = *state;

    transport_promise(&pair->transport, MANY);
    assert_int_equal(gnutls_record_send(pair->server, content, RECORD), RECORD);
    assert_int_equal(read_client(pair, 0), 0);
    transport_rest(&pair->transport); /* the answer was interrupted */
    assert_int_equal(gnutls_bye(pair->server, GNUTLS_SHUT_WR), 0);
    assert_int_equal(read_client(pair, 0), RECORD);
    assert_int_equal(gnutls_record_recv(pair->client, received, 1), 0);
}

static void a_client_that_is_gone_is_an_error(void **state)
{
    struct pair *pair = *state;

    transport_promise(&pair->transport, 2 * RECORD);
    assert_int_equal(gnutls_record_send(pair->server, content, RECORD), RECORD);
    assert_int_equal(shutdown(pair->theirs, SHUT_RDWR), 0);
    const ssize_t sent = gnutls_record_send(pair->server, content, RECORD);
    assert_true(sent < 0 && sent != GNUTLS_E_AGAIN);
}

/* ---- In ---- */

static ssize_t keep_on_wire(gnutls_transport_ptr_t pointer, const void *data, size_t size)
{
    struct pair *pair = pointer;

    memcpy(pair->wire + pair->wire_length, data, size);
    pair->wire_length += size;
    return (ssize_t)size;
}

static void send_on_wire(struct pair *pair, size_t size, size_t record)
{
    gnutls_transport_set_push_function(pair->client, keep_on_wire);
    gnutls_transport_set_ptr2(pair->client, (gnutls_transport_ptr_t)(intptr_t)pair->theirs, pair);
    for (size_t at = 0; at < size; at += record)
        assert_int_equal(gnutls_record_send(pair->client, content + at, size - at < record ? size - at : record),
                         size - at < record ? size - at : record);
}

static void records_arrive_in_any_pieces(void **state)
{
    static const size_t pieces[] = {1, 5, 4097, RECORD + 22, BLOCK_SIZE - 1};
    struct pair *pair = *state;

    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t got = 0;
        pair->wire_length = 0;
        send_on_wire(pair, 3 * RECORD + 5, RECORD);
        transport_receive(&pair->transport);
        for (size_t at = 0; at < pair->wire_length; at += pieces[i]) {
            const size_t left = pair->wire_length - at;
            const size_t part = left < pieces[i] ? left : pieces[i];
            assert_int_equal(write(pair->theirs, pair->wire + at, part), part);
            got = read_server(pair, got);
        }
        assert_int_equal(got, 3 * RECORD + 5);
        assert_memory_equal(received, content, got);
        assert_null(pair->transport.inbox); /* a slow client uses no memory */
    }
}

/* At the end of a body the bytes that were read after it, the next request, are not lost. */
static void what_was_read_ahead_is_not_lost(void **state)
{
    struct pair *pair = *state;

    send_on_wire(pair, 5000, 10);
    assert_int_equal(write(pair->theirs, pair->wire, pair->wire_length), pair->wire_length);
    transport_receive(&pair->transport);
    assert_int_equal(gnutls_record_recv(pair->server, received, 10), 10);
    assert_non_null(pair->transport.inbox);
    transport_rest(&pair->transport);
    assert_int_equal(gnutls_record_send(pair->server, content, 7), 7); /* an answer in between */
    assert_int_equal(read_server(pair, 10), 5000);
    assert_memory_equal(received, content, 5000);
    assert_null(pair->transport.inbox);
}

static void the_end_of_the_stream_is_seen(void **state)
{
    struct pair *pair = *state;

    transport_receive(&pair->transport);
    assert_int_equal(gnutls_bye(pair->client, GNUTLS_SHUT_WR), 0);
    assert_int_equal(gnutls_record_recv(pair->server, received, 1), 0);
}

/* Without memory, bytes are sent as they come. */
static void it_works_without_memory(void **state)
{
    struct pair *pair = *state;

    send_on_wire(pair, 2 * RECORD, RECORD);
    assert_int_equal(write(pair->theirs, pair->wire, pair->wire_length), pair->wire_length);
    transport_receive(&pair->transport);
    transport_promise(&pair->transport, 4 * RECORD);
    fault_arm(1);
    assert_int_equal(gnutls_record_send(pair->server, content, RECORD), RECORD);
    assert_true(fault_has_fired());
    assert_int_equal(read_client(pair, 0), RECORD);
    fault_arm(1);
    assert_int_equal(read_server(pair, 0), 2 * RECORD);
    assert_true(fault_has_fired());
    fault_arm(0);
    assert_memory_equal(received, content, 2 * RECORD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        ROW(records_gather_until_the_last),   ROW(nothing_waits_without_a_promise),     ROW(a_head_and_its_body),
        ROW(a_full_socket_stops_and_goes_on), ROW(what_was_kept_goes_with_the_goodbye), ROW(a_client_that_is_gone_is_an_error),
        ROW(records_arrive_in_any_pieces),    ROW(what_was_read_ahead_is_not_lost),     ROW(the_end_of_the_stream_is_seen),
        ROW(it_works_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
