use super::*;

/// Content, trailers, and what is behind the body.
type Parts = (Vec<u8>, Option<HeaderMap>, Vec<u8>);

/// What a whole body gives when it comes in pieces of `size` bytes.
fn decode(text: &[u8], size: usize) -> Result<Parts, Malformed> {
    let mut chunked = Chunked::default();
    let mut buffer = BytesMut::new();
    let (mut content, mut trailers) = (Vec::new(), None);
    let mut pieces = text.chunks(size);
    loop {
        match chunked.decode(&mut buffer)? {
            Step::Data(data) => {
                assert!(!data.is_empty());
                content.extend_from_slice(&data);
            }
            Step::Trailers(fields) => trailers = Some(fields),
            Step::More => match pieces.next() {
                Some(piece) => buffer.extend_from_slice(piece),
                None => return Err(Malformed::Incomplete),
            },
            Step::End => {
                assert!(chunked.is_done());
                let rest = pieces.flatten().copied();
                return Ok((content, trailers, buffer.iter().copied().chain(rest).collect()));
            }
        }
    }
}

#[test]
fn bodies_are_the_same_however_they_are_cut() {
    let text = b"5\r\nhello\r\n1;a=b;c=\"d\"\r\n \r\n006 \t;x\r\nworld!\r\n0\r\n\r\nGET / HTTP/1.1";
    for size in 1..text.len() {
        let (content, trailers, rest) = decode(text, size).unwrap();
        assert_eq!(content, b"hello world!", "{size}");
        assert_eq!((trailers, rest), (None, b"GET / HTTP/1.1".to_vec()), "{size}");
    }
}

#[test]
fn trailers_are_fields_that_say_nothing_about_the_message() {
    let text = b"0\r\nx-sum: 1\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\nhost: x\r\nx-sum: 2\r\n\r\nnext";
    for size in 1..text.len() {
        let (_, trailers, rest) = decode(text, size).unwrap();
        let trailers = trailers.unwrap();
        assert_eq!(trailers.len(), 2, "{trailers:?}");
        assert_eq!(trailers.get_all("x-sum").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(rest, b"next");
    }
}

#[test]
fn who_gets_the_last_piece_knows_that_it_was_the_last() {
    let mut chunked = Chunked::default();
    let mut buffer = BytesMut::from("2\r\nok\r\n0\r\n\r\n");
    assert_eq!(chunked.decode(&mut buffer), Ok(Step::Data(Bytes::from("ok"))));
    assert!(chunked.is_done() && buffer.is_empty());
    assert_eq!(chunked.decode(&mut buffer), Ok(Step::End));
}

#[test]
fn what_another_reader_may_see_otherwise_is_refused() {
    for bad in [
        "\r\n",
        ";x\r\n",
        " 3\r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "-3\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "3_0\r\n",
        "g\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\rabc\r\n0\r\n\r\n",
        "3 3\r\n",
        "3;a\nb\r\nabc\r\n0\r\n\r\n",
        "3;a\rb\r\nabc\r\n0\r\n\r\n",
        "3;a\0\r\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "0\r\nx: y\n\r\n",
        "0\r\nx: y\r\n\n",
        "0\r\n\n",
        "0\r\nx y\r\n\r\n",
        "0\r\nx: a\r\n b\r\n\r\n",
        "10000000000000003\r\n",
        "ffffffffffffffff\r\n",
    ] {
        for size in [1, bad.len()] {
            assert_eq!(
                decode(bad.as_bytes(), size).map(|_| ()),
                Err(Malformed::Chunk),
                "{bad:?} by {size}"
            );
        }
    }
}

#[test]
fn what_is_not_content_has_limits() {
    let extension = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(16 * 1024 + 1));
    assert_eq!(decode(extension.as_bytes(), 4096).map(|_| ()), Err(Malformed::Chunk));
    let many = format!("{}0\r\n\r\n", "1;xxxxxxxxxxxxxxxxxxx\r\na\r\n".repeat(1000));
    assert_eq!(decode(many.as_bytes(), 4096).map(|_| ()), Err(Malformed::Chunk));
    let trailer = format!("0\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    assert_eq!(
        decode(trailer.as_bytes(), 4096).map(|_| ()),
        Err(Malformed::HeadTooLarge)
    );
}
