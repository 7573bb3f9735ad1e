//! A static server for benchmarks: as little work a request as possible, so that what is measured is the client.
//!
//! `static_server [BYTES]` prints its port and answers every request with BYTES (1,024) bytes until it is killed.
//! One thread a connection; it looks for the ends of heads and reads nothing else, so send it no bodies.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use socket2::{Domain, Socket, Type};

fn main() -> io::Result<()> {
    let size = match std::env::args().nth(1) {
        Some(bytes) => bytes.parse().map_err(|_| io::Error::other("usage: static_server [BYTES]"))?,
        None => 1024,
    };
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + size, b'x');
    let answer: Arc<[u8]> = answer.into();

    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(4096)?;
    let listener = TcpListener::from(socket);
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    for stream in listener.incoming() {
        let (stream, answer) = (stream?, Arc::clone(&answer));
        std::thread::Builder::new().stack_size(64 * 1024).spawn(move || serve(stream, &answer))?;
    }
    Ok(())
}

fn serve(mut stream: TcpStream, answer: &[u8]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 16 * 1024];
    // Bytes of the head's end seen so far; it may be split over two reads.
    let mut seen = 0;
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        for &byte in &buffer[..read] {
            seen = match byte {
                byte if byte == HEAD_END[seen] => seen + 1,
                b'\r' => 1,
                _ => 0,
            };
            if seen == HEAD_END.len() {
                seen = 0;
                stream.write_all(answer)?;
            }
        }
    }
}

const HEAD_END: [u8; 4] = *b"\r\n\r\n";
